"""What all keys share (`Base`), what one key has of its own (`KeyState`, as bytes), and its model (`Member`).

What a key knows follows from what all keys share and its own rows in order, exactly; after few labels nothing is
smaller. A key whose rows grew many has a model file in front, a snapshot, and has learned its rows after it. The state
of a key is a framed record (`hedgerow.core.frames`) of the digest of its `Base`:

| part    | what it is                                                                                              |
|---------|---------------------------------------------------------------------------------------------------------|
| about   | rows, features, bytes of a feature (8: double, 4: single) and of a code, the new classes                |
| blocks  | snapshot, features, codes, weights (empty where all are 1)                                              |

Features that single precision holds without loss are stored so. Codes are whole numbers of 1, 2 or 4 bytes; a regressor
has its labels themselves in their place, of 8 bytes.
"""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from hedgerow.core.arrays import LARGEST, Array, dense
from hedgerow.core.errors import InputError
from hedgerow.core.frames import FrameKind
from hedgerow.core.registry import Limits
from hedgerow.core.values import (
    MISSING,
    as_labels,
    is_missing,
    is_row,
    labels_from_json,
    labels_to_json,
    objects,
    plain,
)
from hedgerow.estimator import NamedValues, OnlineTransferClassifier
from hedgerow.inputs import usable, weighted_labels
from hedgerow.regressor import model_of_bytes
from hedgerow.task import CLASSES, NUMBERS, Model, task_of


@dataclass(frozen=True)
class Settings(Limits):
    """How each key of a fleet waits for labels that come later, and remembers: `Limits` has the words.

    >>> Settings(label_timeout=3600).max_pending
    1000
    """

    max_pending: int = 1_000
    keep_events: int = 1_000


STATE = FrameKind(b"hrk2", "restore it from a copy, or forget the key")
BATCH = FrameKind(b"hrb1", "restore the folder of the fleet from a copy")
CODES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<i1"),
    2: np.dtype("<i2"),
    4: np.dtype("<i4"),
    8: np.dtype("<f8"),
}
FEATURES: dict[int, np.dtype[Any]] = {4: np.dtype("<f4"), 8: np.dtype("<f8")}
MOST_ROWS = 512  # learned after the last snapshot: beyond, going through them again takes too long
FEW = 16  # rows after a snapshot for which no new one is taken


@dataclass(frozen=True)
class KeyState:
    """Rows X (t x m, raw), codes (t; -1: no label), weights (t); classes beyond the base's; perhaps a snapshot.

    Of a regressor the codes are the labels themselves, NaN where there is none.
    """

    X: Array
    codes: Array
    weights: Array
    new_classes: Array
    snapshot: bytes = b""
    ROWS: ClassVar[tuple[str, ...]] = ("X", "codes", "weights")

    @classmethod
    def empty(cls, features: int) -> KeyState:
        """Of a key that has learned nothing."""
        return cls(
            np.empty((0, features)), np.empty(0, np.int64), np.empty(0), np.empty(0, dtype=object)
        )

    @classmethod
    def joined(cls, states: Sequence[KeyState]) -> KeyState:
        """One after the other; only the first may have a snapshot."""
        X, codes, weights = (
            np.concatenate([getattr(state, name) for state in states]) for name in cls.ROWS
        )
        return cls(X, codes, weights, states[-1].new_classes, states[0].snapshot)

    def some(self, places: Any) -> KeyState:
        """These of its rows."""
        X, codes, weights = (getattr(self, name)[places] for name in self.ROWS)
        return replace(self, X=X, codes=codes, weights=weights)

    def __len__(self) -> int:
        return len(self.codes)

    def to_bytes(self, base: bytes) -> bytes:
        """As the table above says; `base` is the digest of what all keys share (16 bytes)."""
        x = _smallest_features(self.X)
        y = _smallest_codes(self.codes)
        new = labels_to_json(self.new_classes) if len(self.new_classes) else None
        about = [*self.X.shape, x.itemsize, y.itemsize, new]
        weights = self.weights.astype("<f8").tobytes() if (self.weights != 1).any() else b""
        return STATE.pack(about, [self.snapshot, x.tobytes(), y.tobytes(), weights], base)

    @classmethod
    def from_bytes(cls, data: bytes, base: bytes, name: str) -> KeyState:
        """The inverse; whatever else the bytes are is an error that names the key."""
        _, about, blocks = STATE.unpack(data, f"{name}: its state", base)
        try:
            rows, features, x_size, y_size, new = about
            snapshot, x, y, weights = blocks
            codes = np.frombuffer(y, CODES[y_size])
            state = cls(
                np.frombuffer(x, FEATURES[x_size]).reshape(rows, features).astype(np.float64),
                codes.astype(np.float64 if y_size == 8 else np.int64),
                np.frombuffer(weights, "<f8") if weights else np.ones(rows),
                np.empty(0, dtype=object) if new is None else labels_from_json(new),
                snapshot,
            )
            if not rows == len(state.codes) == len(state.weights):
                raise ValueError(
                    f"{rows} rows, {len(state.codes)} labels, {len(state.weights)} weights"
                )
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{name}: its state is damaged ({error}); {STATE.remedy}") from error
        return state


def _smallest_features(X: Array) -> Array:
    if X.dtype == np.float64:
        with np.errstate(over="ignore"):
            single = X.astype("<f4")
        if np.array_equal(single, X, equal_nan=True):  # a gap of a table is NaN in both
            return single
    return np.ascontiguousarray(X, "<f8")


def _smallest_codes(codes: Array) -> Array:
    if codes.dtype.kind == "f":
        return codes.astype(CODES[8])
    top = int(codes.max(initial=0))
    return codes.astype(CODES[1 if top < 2**7 else 2 if top < 2**15 else 4])


class KeyModel(ABC):
    """What a key knows, to look at."""

    @abstractmethod
    def model(self) -> Model:
        """The key's model."""

    def predict_set(self, X: Any, coverage: float | None = None) -> Array:
        """The set of each row, as `OnlineTransferClassifier.predict_set` gives it."""
        return CLASSES.only(self.model()).predict_set(X, coverage)

    def predict_interval(self, X: Any, coverage: float | None = None) -> Array:
        """The interval of each row, as `OnlineTransferRegressor.predict_interval` gives it."""
        return NUMBERS.only(self.model()).predict_interval(X, coverage)

    @property
    def classes_(self) -> Array:
        """The classes of the sources, then those that this key has met."""
        return CLASSES.only(self.model()).classes_

    @property
    def seen_(self) -> int:
        """Labels learned so far."""
        return self.model().seen_

    @property
    def mistakes_(self) -> int:
        """Mistakes so far."""
        return CLASSES.only(self.model()).mistakes_

    @property
    def rmse_(self) -> float:
        """The root of a regressor's mean squared error so far."""
        return NUMBERS.only(self.model()).rmse_

    @property
    def coverage_(self) -> dict[float, float]:
        """Coverage -> the share of labels that were in their set, or interval, so far."""
        return self.model().coverage_

    @property
    def weights_(self) -> NamedValues:
        """How much each expert is trusted, by name."""
        return self.model().weights_


class Member(KeyModel):
    """What one key knows. Rows are learned in order; `to_bytes` is its state, from which `Base.member` goes on.

    `clf` is the estimator itself, to look at: what it learns by itself is not in the state.
    """

    def __init__(self, base: Base, state: KeyState, name: str) -> None:
        """For `Base.member`."""
        self._base = base
        self._name = name
        self._states = [state]
        self.clf = base.model(state, name)

    def model(self) -> Model:
        """The estimator itself."""
        return self.clf

    def predict(self, X: Any) -> Array:
        """The most likely class of each row, or its number."""
        return self.clf.predict(X)

    def predict_proba(self, X: Any) -> Array:
        """A probability a class, in the order of `classes_`."""
        return CLASSES.only(self.clf).predict_proba(X)

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Member:
        """Labelled rows in order; a label may be None."""
        self.predict_then_learn(X, y, sample_weight)
        return self

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """The prediction made for each row before its label was learned."""
        rows = dense(self.clf.as_matrix(X))
        predicted = self.clf.predict_then_learn(rows, y, sample_weight)
        codes = self._base.task.codes(self.clf, as_labels(y, "y"))
        weights = (
            np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        )
        self._states.append(
            KeyState(np.array(rows), codes, weights, self._base.new_classes(self.clf))
        )
        return predicted

    def state(self) -> KeyState:
        """The rows after the last snapshot; a new one is taken where the rows are many, or larger than it."""
        state = KeyState.joined(self._states)
        if self._base.wants_snapshot(
            len(state), sum(array.nbytes for array in self.clf.learner_.stored().values())
        ):
            state = self._base.snapshot(self.clf)
            self.clf = self._base.model(state, self._name)
        self._states = [state]
        return state

    def to_bytes(self) -> bytes:
        """The state as bytes."""
        return self.state().to_bytes(self._base.owner)


class Base:
    """A fitted model that has learned no label of a target: every key starts as it is.

    >>> import numpy as np
    >>> base = Base.fit([(np.eye(4), ["x", "y", "x", "y"])], method="hedgerow-linear")
    >>> member = base.member()
    >>> member.learn(np.eye(4)[:1], ["y"]).seen_
    1
    >>> base.member(member.to_bytes()).seen_
    1
    """

    def __init__(self, clf: Model, name: bytes | None = None, sources: Batch | None = None) -> None:
        """Of a fitted model, of which a copy is taken.

        `name`: what states call it, if not its digest; `sources`: the rows that it was fitted on, by their domains.
        """
        if not isinstance(clf, Model):
            raise InputError(
                "a fleet starts from a fitted OnlineTransferClassifier or OnlineTransferRegressor, not from "
                f"{type(clf).__name__}"
            )
        ahead = getattr(clf, "ahead", None)
        if ahead is not None:
            raise InputError(
                f"ahead={ahead}: keys of a fleet keep no series; use a live model for each, or ahead=None"
            )
        if clf.seen_:
            raise InputError(
                f"the model has learned {clf.seen_} labels of a target, and all keys would start with them; "
                "fit one on the sources alone"
            )
        if getattr(clf, "costs", None) is not None:
            raise InputError(
                "a fleet predicts the likeliest class: fit without costs, and decide by the probabilities"
            )
        if outside := getattr(clf.learner_.plan, "outside", ()):
            raise InputError(
                f"a key of a fleet cannot have the expert {outside[0]!r}: fit the model with trees=False, and without "
                "experts of your own"
            )
        self._data = clf.to_bytes()
        self.name = name
        self.sources = sources
        # the model itself, to look at: what a key predicts that has learned nothing
        self.clf = model_of_bytes(self._data, "the base")
        self.task = task_of(self.clf)

    @classmethod
    def fit(
        cls,
        sources: Any,
        method: str | Model = "hedgerow",
        *,
        label: str | None = None,
        keep: bool = False,
        **options: Any,
    ) -> Self:
        """The sources, as `fit_domains` takes them, fitted without rows of any target; `method` may be an estimator, of
        which a clone is fitted. `keep`: their rows are kept as `sources`.
        """
        if isinstance(method, str):
            method = OnlineTransferClassifier(method, **options)
        elif not isinstance(method, Model):
            raise InputError(
                f"method: a name, an OnlineTransferClassifier or OnlineTransferRegressor, not {type(method).__name__}"
            )
        elif options:
            raise InputError(
                f"a fleet of an estimator takes no options ({', '.join(options)}): set them on it"
            )
        if not keep:
            return cls(clone(method).fit_domains(sources, label=label))
        clf, parts = clone(method).fit_and_read(sources, label)
        keys: list[Key] = [part.name for part in parts for _ in part.labels]
        rows = np.concatenate([np.asarray(dense(part.X), np.float64) for part in parts])
        labels = objects([label for part in parts for label in part.labels.tolist()])
        return cls(clf, sources=Batch.of(keys, rows, labels))

    def to_bytes(self) -> bytes:
        """The content of a model file: what a worker is sent, once."""
        return self._data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse."""
        return cls(model_of_bytes(data, "the base of a fleet"))

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that stand for all that is shared."""
        header = repr(
            (self.clf.constants_.digest, self.clf.learner_.plan_to_json(), self.classes.tolist())
        )
        if self.clf.table_ is not None:  # sources with other words may become the same numbers
            header += json.dumps(self.clf.table_.to_json(), sort_keys=True)
        return hashlib.sha256(header.encode()).digest()[:16]

    @property
    def owner(self) -> bytes:
        """16 bytes that the state of every key has: the name, or the digest."""
        return self.name or self.digest

    @property
    def classes(self) -> Array:
        """The classes of the sources; a regressor has none."""
        return self.task.classes(self.clf)

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return int(self.clf.n_features_in_)

    def row(self, x: Any) -> Array:
        """One instance as a matrix of numbers."""
        row = self.clf.as_row(x)
        return np.asarray(row if row.ndim == 1 else row.toarray(), np.float64).reshape(1, -1)

    def several(self, keys: Any, X: Any) -> tuple[bool, Any, Any]:
        """Whether a key came with one row of its own, and keys and rows: one key in the place of many is that of all.

        >>> import numpy as np
        >>> base = Base.fit([(np.eye(4), ["x", "y", "x", "y"])], method="hedgerow-linear")
        >>> base.several("till-1", [1, 0, 0, 0])
        (True, ['till-1'], array([[1., 0., 0., 0.]]))
        """
        if not isinstance(keys, str | int | np.integer):
            if not isinstance(keys, Sized):
                raise InputError(f"keys={keys!r}: give a key, or a list of keys, one a row")
            return False, keys, X
        if not is_row(X):
            return False, [keys] * (X.shape[0] if hasattr(X, "shape") else len(X)), X
        return True, [keys], self.row(X)

    def model(self, state: KeyState, name: str = "a key") -> Model:
        """A model of one's own that has learned the rows of a state; the constants are shared."""
        if state.snapshot:
            clf = type(self.clf).from_bytes(
                state.snapshot, constants=self.clf.constants_, name=name
            )
        else:
            clf = copy.deepcopy(self.clf)
        if len(state):
            weights = None if (state.weights == 1).all() else state.weights
            classes = [*self.classes.tolist(), *state.new_classes.tolist()]
            self.task.learn(clf, state.X, self.task.labels(state.codes, classes, name), weights)
        return clf

    def new_classes(self, clf: Model | None) -> Array:
        """Classes of a key's model that the sources do not have."""
        return objects([] if clf is None else self.task.classes(clf)[len(self.classes) :].tolist())

    def snapshot(self, clf: Model) -> KeyState:
        """All that a model of one's own knows, without its rows."""
        data = clf.to_bytes(constants=False)
        return replace(
            KeyState.empty(self.n_features), new_classes=self.new_classes(clf), snapshot=data
        )

    def member(self, state: bytes | None = None, name: str = "a key") -> Member:
        """The model of one key, from its state or, where it has none, from the start. `name` stands in errors."""
        known = (
            KeyState.empty(self.n_features)
            if state is None
            else KeyState.from_bytes(state, self.owner, name)
        )
        if known.X.shape[1] != self.n_features:
            raise InputError(
                f"{name}: its state has rows of {known.X.shape[1]} features, not {self.n_features}"
            )
        return Member(self, known, name)

    def wants_snapshot(self, rows: int, size: int) -> bool:
        """Whether so many rows are better kept as a snapshot of this size (bytes)."""
        return rows > MOST_ROWS or (rows > FEW and 8 * rows * self.n_features > size)


# -- batches of keyed rows: checked row by row, so that one bad row need not stop the others, and as bytes -------------
LARGE = LARGEST[np.dtype(np.float64)]
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
    elif (
        isinstance(key, int | np.integer) and not isinstance(key, bool) and -(2**63) <= key < 2**63
    ):
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


@dataclass(frozen=True)
class Batch:
    """Rows with their keys; those that are `learned` have weights and perhaps labels, the others are predicted only."""

    keys: list[Key]
    X: Array
    labels: Array
    weights: Array
    learned: Array

    @classmethod
    def of(
        cls, keys: list[Key], X: Array, labels: Array | None, weights: Array | None = None
    ) -> Batch:
        """All rows are learned, with these labels (None: none), or, without labels, predicted."""
        n = len(keys)
        learned = labels is not None
        labels = np.full(n, None, dtype=object) if labels is None else labels
        return cls(keys, X, labels, np.ones(n) if weights is None else weights, np.full(n, learned))

    def some(self, places: list[int]) -> Batch:
        """These rows."""
        keys = [self.keys[i] for i in places]
        return Batch(
            keys, self.X[places], self.labels[places], self.weights[places], self.learned[places]
        )

    @cached_property
    def by_key(self) -> dict[Key, list[int]]:
        """The places of each key's rows, in order."""
        places: dict[Key, list[int]] = {}
        for i, key in enumerate(self.keys):
            places.setdefault(key, []).append(i)
        return places

    def codes(self, clf: Model) -> Array:
        """The labels as codes of a model."""
        return (
            task_of(clf).codes(clf, self.labels)
            if self.learned.any()
            else np.full(len(self.keys), MISSING)
        )

    def to_bytes(self) -> bytes:
        """Without loss; labels are text, numbers or tuples of these."""
        labels = [
            None if none else plain(label)
            for label, none in zip(self.labels, is_missing(self.labels), strict=True)
        ]
        weights = self.weights.astype("<f8").tobytes() if (self.weights != 1).any() else b""
        rows = np.ascontiguousarray(self.X, "<f8")
        try:
            return BATCH.pack([self.keys, labels, rows.shape[1]], [rows.tobytes(), weights])
        except TypeError as error:
            raise InputError(
                f"y: labels of a fleet are text, numbers or tuples of these ({error})"
            ) from error

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "a batch of the journal") -> Batch:
        """The inverse; an error names `name` and what is wrong with its bytes."""
        _, (keys, kept, features), (rows, weights) = BATCH.unpack(data, name)
        X = np.frombuffer(rows, "<f8").reshape(len(keys), features)
        labels = objects([tuple(label) if isinstance(label, list) else label for label in kept])
        return cls.of(keys, X, labels, np.frombuffer(weights, "<f8") if weights else None)


def checked(
    clf: Model, keys: Any, X: Any, y: Any, sample_weight: Any, letters: list[DeadLetter] | None
) -> tuple[Batch, list[int]]:
    """The rows of a batch that can be used, and their places in it. Others are an error, or letters."""
    given: list[Any] = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    reasons: dict[int, str] = {}
    for i, key in enumerate(given):
        try:
            given[i] = checked_key(key)
        except InputError as error:
            if letters is None:
                raise InputError(f"row {i}: {error}") from None
            reasons[i] = str(error)
    rows, bad = (
        (np.asarray(dense(clf.as_matrix(X)), np.float64), {})
        if letters is None
        else usable_rows(clf, X)
    )
    if len(given) != len(rows):
        raise InputError(f"{len(given)} keys for {len(rows)} rows of X; give one a row")
    labels, weights = (None, None) if y is None else weighted_labels(y, sample_weight, len(rows))
    if letters is not None:
        reasons |= {i: reason for i, reason in bad.items() if i not in reasons}
        letters += [DeadLetter(i, given[i], reason) for i, reason in reasons.items()]
    good = [i for i in range(len(rows)) if i not in reasons] if reasons else list(range(len(rows)))
    batch = Batch.of(given, rows, labels, weights)
    return (batch.some(good) if reasons else batch), good


def usable_rows(
    clf: Model, X: Any, names: Sequence[str] | None = None
) -> tuple[Array, dict[int, str]]:
    """The rows as numbers, and those that cannot be used, with the reason; `names` are those of the features."""
    reasons: dict[int, str] = {}
    if (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.shape[1] == clf.n_features_in_
        and X.dtype.kind in "fiu"
    ):
        rows = np.asarray(X, np.float64)
    elif clf.table_ is not None and (encoded := usable(clf.table_, X)) is not None:
        with np.errstate(over="ignore"):  # what is too large is found with what is not finite
            rows = encoded[0].astype(clf.learner_.dtype).astype(np.float64)
            reasons = encoded[1]
        names = clf.table_.feature_names
    else:
        rows = np.asarray(dense(clf.as_matrix(X)), np.float64)
    with np.errstate(invalid="ignore"):
        good = np.asarray(np.abs(rows) <= LARGE)
    if clf.learner_.gaps:
        good |= np.isnan(rows)
    for i in np.flatnonzero(~good.all(axis=1)).tolist():
        columns = np.flatnonzero(~good[i])[:3].tolist()
        bad = ", ".join(
            f"feature {k} ({rows[i, k]})" if names is None else names[k] for k in columns
        )
        reasons[i] = f"missing or not finite: {bad}; fill it before, or leave the row out"
    return rows, reasons
