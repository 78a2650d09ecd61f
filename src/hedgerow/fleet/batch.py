"""A batch of keyed, labelled rows: checked row by row, so that one bad row need not stop the others, and as bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow.core.arrays import LARGEST, Array, dense
from hedgerow.core.errors import InputError
from hedgerow.core.values import MISSING, is_missing, plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.inputs import usable, weighted_labels

LARGE = LARGEST[np.dtype(np.float64)]
SIZES = struct.Struct("<III")
Key = str | int
LONGEST = 200  # characters of a key


@dataclass(frozen=True)
class DeadLetter:
    """A row that could not be used: its place in the batch, its key as it came, and why."""

    row: int
    key: Any
    reason: str


def checked_key(key: Any) -> Key:
    """Text or a whole number, as Python has them.

    >>> checked_key(np.int64(7)), checked_key("site-7")
    (7, 'site-7')
    """
    if isinstance(key, str):
        if _is_text(key):
            return str.__str__(key)
    elif isinstance(key, int | np.integer) and not isinstance(key, bool) and -(2**63) <= key < 2**63:
        return int(key)
    raise InputError(
        f"key {str(key)[:40]!r} of type {type(key).__name__}: a key is text of 1 to {LONGEST} characters that UTF-8 "
        "can write, or a whole number of 64 bits; make it text with str(key)"
    )


def _is_text(key: str) -> bool:
    try:
        return 0 < len(key) <= LONGEST and (key.isascii() or bool(key.encode()))
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False


def checked_keys(keys: Sequence[Any] | Array, letters: list[DeadLetter] | None) -> tuple[list[Any], list[int]]:
    """The keys, and the places of those that can be used; the others are an error, or letters."""
    usable: list[Any] = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    good = []
    for i, key in enumerate(usable):
        try:
            usable[i] = checked_key(key)
            good.append(i)
        except InputError as error:
            if letters is None:
                raise InputError(f"row {i}: {error}") from None
            letters.append(DeadLetter(i, key, str(error)))
    return usable, good


@dataclass(frozen=True)
class Batch:
    """Rows with their keys; where they are to be learned also labels (None: none) and weights."""

    keys: list[Key]
    X: Array
    labels: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.keys)

    def some(self, places: list[int]) -> Batch:
        """These rows."""
        return Batch([self.keys[i] for i in places], self.X[places], self.labels[places], self.weights[places])

    @cached_property
    def by_key(self) -> dict[Key, list[int]]:
        """The places of each key's rows, in order."""
        places: dict[Key, list[int]] = {}
        for i, key in enumerate(self.keys):
            places.setdefault(key, []).append(i)
        return places

    def codes(self, clf: OnlineTransferClassifier) -> Array:
        """The labels as places among the classes of a model: MISSING where there is none, below it where it is new."""
        codes = clf.codes_of(self.labels)
        codes[is_missing(self.labels)] = MISSING
        return codes

    def to_bytes(self) -> bytes:
        """Without loss; labels are text, numbers or tuples of these."""
        labels = [
            None if none else plain(label) for label, none in zip(self.labels, is_missing(self.labels), strict=True)
        ]
        about = {"keys": self.keys, "labels": labels}
        if (self.weights != 1).any():
            about["weights"] = self.weights.tolist()
        try:
            text = json.dumps(about).encode()
        except TypeError as error:
            raise InputError(f"y: labels of a fleet are text, numbers or tuples of these ({error})") from error
        rows = np.ascontiguousarray(self.X, "<f8")
        return SIZES.pack(len(text), *rows.shape) + text + rows.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Batch:
        """The inverse."""
        size, rows, features = SIZES.unpack_from(data)
        about = json.loads(data[SIZES.size : SIZES.size + size])
        X = np.frombuffer(data, "<f8", offset=SIZES.size + size).reshape(rows, features)
        labels = np.empty(rows, dtype=object)
        labels[:] = [tuple(label) if isinstance(label, list) else label for label in about["labels"]]
        return cls(about["keys"], X, labels, np.array(about.get("weights", np.ones(rows)), np.float64))


def checked(
    clf: OnlineTransferClassifier, keys: Any, X: Any, y: Any, sample_weight: Any, letters: list[DeadLetter] | None
) -> tuple[Batch, list[int]]:
    """The rows of a batch that can be used, and their places in it. Others are an error, or letters."""
    usable_keys, good = checked_keys(keys, letters)
    rows, bad = _matrix(clf, X, letters)
    n = len(rows)
    if len(usable_keys) != n:
        raise InputError(f"{len(usable_keys)} keys for {n} rows of X; give one a row")
    if y is None:
        labels, weights = np.full(n, None, dtype=object), np.ones(n)
    else:
        labels, counts = weighted_labels(y, sample_weight, n)
        weights = np.ones(n) if counts is None else counts
    if letters is not None:
        letters += [DeadLetter(i, usable_keys[i], bad[i]) for i in good if i in bad]
        good = [i for i in good if i not in bad]
        good = list(_finite(rows, usable_keys, good, letters, clf.learner_.gaps))
    batch = Batch(usable_keys, rows, labels, weights)
    return (batch if len(good) == n else batch.some(good)), good


def _matrix(clf: OnlineTransferClassifier, X: Any, letters: list[DeadLetter] | None) -> tuple[Array, dict[int, str]]:
    """The rows as numbers; where there are letters also the rows that cannot be, with the reason."""
    if clf.table_ is not None and not isinstance(X, np.ndarray):
        checked_rows = None if letters is None else usable(clf.table_, X)
        if checked_rows is None:
            return np.asarray(clf.as_matrix(X), np.float64), {}
        with np.errstate(over="ignore"):  # what is too large is found with what is not finite
            return checked_rows[0].astype(clf.learner_.dtype).astype(np.float64), checked_rows[1]
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) == 2 and shape[1] != clf.n_features_in_:
        raise InputError(
            f"X has {shape[1]} columns, the sources of this fleet have {clf.n_features_in_} features; give these"
        )
    plain_rows = type(X) is np.ndarray and X.ndim == 2 and X.shape[1] == clf.n_features_in_ and X.dtype.kind in "fiu"
    if letters is None or not plain_rows:
        return np.asarray(dense(clf.as_matrix(X)), np.float64), {}
    return np.asarray(X, np.float64), {}


def _finite(rows: Array, keys: list[Any], good: list[int], letters: list[DeadLetter], gaps: bool) -> Iterable[int]:
    with np.errstate(invalid="ignore"):
        usable = np.asarray(np.abs(rows) <= LARGE)
    if gaps:
        usable |= np.isnan(rows)
    bad = np.asarray(~usable.all(axis=1))
    for i in good:
        if bad[i]:
            column = int(np.flatnonzero(~usable[i])[0])
            reason = f"feature {column} is {rows[i, column]}; replace gaps and infinities before"
            letters.append(DeadLetter(i, keys[i], reason))
        else:
            yield i
