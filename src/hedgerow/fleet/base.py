"""What all keys share (`Base`), what one key has of its own (`KeyState`, as bytes), and its model (`Member`).

What a key knows follows from what all keys share and its own rows in order, exactly; after few labels nothing is
smaller. A key whose rows grew many has a model file in front, a snapshot, and has learned its rows after it. Layout of
the state, little-endian:

| part     | bytes | what it is                                                                    |
|----------|-------|-------------------------------------------------------------------------------|
| magic    | 4     | `hrk1`                                                                        |
| base     | 16    | the start of the digest of the `Base` that the key belongs to                 |
| kinds    | 3     | type of the features (8: double, 4: single), of the codes (below), weighted   |
| sizes    | 4 x 4 | rows, features, bytes of the new classes (JSON), bytes of the snapshot        |
| parts    |       | new classes, snapshot, features, codes, weights (where not all are 1)         |
| checksum | 4     | CRC-32 of all before                                                          |

Features that single precision holds without loss are stored so. Codes are whole numbers of 1, 2 or 4 bytes; a regressor
has its labels themselves in their place, of 8 bytes.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from hedgerow.core.arrays import LARGEST, Array, dense
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.values import MISSING, as_labels, is_missing, labels_from_json, labels_to_json, objects, plain
from hedgerow.estimator import NamedValues, OnlineTransferClassifier
from hedgerow.inputs import usable, weighted_labels
from hedgerow.regressor import OnlineTransferRegressor, model_of_bytes, numbers

Model = OnlineTransferClassifier | OnlineTransferRegressor
MAGIC, SCHEMA = b"hrk", b"1"
HEAD = struct.Struct("<4s16sBBBIIII")
CODES: dict[int, np.dtype[Any]] = {1: np.dtype("<i1"), 2: np.dtype("<i2"), 4: np.dtype("<i4"), 8: np.dtype("<f8")}
FEATURES: dict[int, np.dtype[Any]] = {4: np.dtype("<f4"), 8: np.dtype("<f8")}
MOST_ROWS = 512  # learned after the last snapshot: beyond, going through them again takes too long
FEW = 16  # rows after a snapshot for which no new one is taken


class OtherKind(InputError, AttributeError):
    """Asked of models of numbers what only those of classes have, or the other way round."""


def classifier(model: Model) -> OnlineTransferClassifier:
    """The model, if it has classes."""
    if isinstance(model, OnlineTransferRegressor):
        raise OtherKind(
            "a regressor has neither classes nor probabilities, sets or mistakes: predict gives numbers, "
            "predict_interval intervals, and a key has rmse_ and coverage_"
        )
    return model


def regressor(model: Model) -> OnlineTransferRegressor:
    """The model, if it predicts numbers."""
    if isinstance(model, OnlineTransferClassifier):
        raise OtherKind(
            "a classifier has no intervals and no rmse_: use predict_proba, or predict_set and mistakes_ of a key; for "
            "numbers make the fleet by Fleet(sources, OnlineTransferRegressor())"
        )
    return model


def codes_of(model: Model, labels: Array) -> Array:
    """Labels as states have them: places among the classes, MISSING or, for one that is new, less; or the numbers."""
    if isinstance(model, OnlineTransferRegressor):
        return numbers(labels, "y")
    codes = model.codes_of(labels)
    codes[is_missing(labels)] = MISSING
    return codes


def check_labels(model: Model, labels: Array) -> None:
    """Refuse labels that a model could not learn; nothing changes."""
    codes_of(model, labels) if isinstance(model, OnlineTransferRegressor) else model.check_labels(labels)


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
        return cls(np.empty((0, features)), np.empty(0, np.int64), np.empty(0), np.empty(0, dtype=object))

    @classmethod
    def joined(cls, states: Sequence[KeyState]) -> KeyState:
        """One after the other; only the first may have a snapshot."""
        X, codes, weights = (np.concatenate([getattr(state, name) for state in states]) for name in cls.ROWS)
        return cls(X, codes, weights, states[-1].new_classes, states[0].snapshot)

    def __len__(self) -> int:
        return len(self.codes)

    def to_bytes(self, base: bytes) -> bytes:
        """As the table above says; `base` is the digest of what all keys share (16 bytes)."""
        x, y = _smallest_features(self.X), _smallest_codes(self.codes)
        new = json.dumps(labels_to_json(self.new_classes)).encode() if len(self.new_classes) else b""
        weighted = bool((self.weights != 1).any())
        head = HEAD.pack(
            MAGIC + SCHEMA, base, x.itemsize, y.itemsize, weighted,
            len(self.codes), self.X.shape[1], len(new), len(self.snapshot),
        )  # fmt: skip
        tail = self.weights.astype("<f8").tobytes() if weighted else b""
        data = b"".join((head, new, self.snapshot, x.tobytes(), y.tobytes(), tail))
        return data + struct.pack("<I", zlib.crc32(data))

    @classmethod
    def from_bytes(cls, data: bytes, base: bytes, name: str) -> KeyState:
        """The inverse; whatever else the bytes are is an error that names the key."""
        if data[:3] != MAGIC or len(data) < HEAD.size + 4:
            raise InputError(f"{name}: its state is none of a key ({len(data)} bytes); restore it, or forget the key")
        if data[3:4] != SCHEMA:
            raise InputError(f"{name}: its state has the schema {data[3:4]!r}, this hedgerow reads {SCHEMA!r}: upgrade")
        if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
            raise InputError(f"{name}: its state is damaged; restore it from a copy, or forget the key")
        _, of, x_size, y_size, weighted, rows, features, new_size, snapshot_size = HEAD.unpack_from(data)
        if of != base:
            raise InputError(
                f"{name}: its state belongs to other sources (digest {of.hex()[:12]}.., these have "
                f"{base.hex()[:12]}..); use the base that it was learned with, or forget the key"
            )
        try:
            sizes = (new_size, snapshot_size, rows * features * x_size, rows * y_size, 8 * rows * weighted)
            if HEAD.size + sum(sizes) + 4 != len(data):
                raise ValueError("parts that do not fill it")
            ends = np.cumsum((HEAD.size, *sizes)).tolist()
            new, snapshot, x, y, w = (data[a:b] for a, b in pairwise(ends))
            return cls(
                np.frombuffer(x, FEATURES[x_size]).reshape(rows, features).astype(np.float64),
                np.frombuffer(y, CODES[y_size]).astype(np.float64 if y_size == 8 else np.int64),
                np.frombuffer(w, "<f8") if weighted else np.ones(rows),
                labels_from_json(json.loads(new)) if new else np.empty(0, dtype=object),
                snapshot,
            )
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{name}: its state is damaged ({error}); restore it, or forget the key") from error


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
        return classifier(self.model()).predict_set(X, coverage)

    def predict_interval(self, X: Any, coverage: float | None = None) -> Array:
        """The interval of each row, as `OnlineTransferRegressor.predict_interval` gives it."""
        return regressor(self.model()).predict_interval(X, coverage)

    @property
    def classes_(self) -> Array:
        """The classes of the sources, then those that this key has met."""
        return classifier(self.model()).classes_

    @property
    def seen_(self) -> int:
        """Labels learned so far."""
        return self.model().seen_

    @property
    def mistakes_(self) -> int:
        """Mistakes so far."""
        return classifier(self.model()).mistakes_

    @property
    def rmse_(self) -> float:
        """The root of a regressor's mean squared error so far."""
        return regressor(self.model()).rmse_

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
        self._base, self._name, self._states = base, name, [state]
        self.clf = base.model(state, name)

    def model(self) -> Model:
        """The estimator itself."""
        return self.clf

    def predict(self, X: Any) -> Array:
        """The most likely class of each row, or its number."""
        return self.clf.predict(X)

    def predict_proba(self, X: Any) -> Array:
        """A probability a class, in the order of `classes_`."""
        return classifier(self.clf).predict_proba(X)

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Member:
        """Labelled rows in order; a label may be None."""
        self.predict_then_learn(X, y, sample_weight)
        return self

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """The prediction made for each row before its label was learned."""
        rows = dense(self.clf.as_matrix(X))
        predicted = self.clf.predict_then_learn(rows, y, sample_weight)
        codes = codes_of(self.clf, as_labels(y, "y"))
        weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        self._states.append(KeyState(np.array(rows), codes, weights, self._base.new_classes(self.clf)))
        return predicted

    def state(self) -> KeyState:
        """The rows after the last snapshot; a new one is taken where the rows are many, or larger than it."""
        state = KeyState.joined(self._states)
        if self._base.wants_snapshot(len(state), sum(array.nbytes for array in self.clf.learner_.stored().values())):
            state = self._base.snapshot(self.clf)
            self.clf = self._base.model(state, self._name)
        self._states = [state]
        return state

    def to_bytes(self) -> bytes:
        """The state as bytes."""
        return self.state().to_bytes(self._base.digest)


class Base:
    """A fitted model that has learned no label of a target: every key starts as it is.

    >>> import numpy as np
    >>> base = Base.fit([Domain("a", np.eye(4), ["x", "y", "x", "y"])], method="hedgerow-linear")
    >>> member = base.member()
    >>> member.learn(np.eye(4)[:1], ["y"]).seen_
    1
    >>> base.member(member.to_bytes()).seen_
    1
    """

    def __init__(self, clf: Model) -> None:
        """Of a fitted model, of which a copy is taken."""
        if not isinstance(clf, Model):
            raise InputError(
                "a fleet starts from a fitted OnlineTransferClassifier or OnlineTransferRegressor, not from "
                f"{type(clf).__name__}"
            )
        if clf.seen_:
            raise InputError(
                f"the model has learned {clf.seen_} labels of a target, and all keys would start with them; "
                "fit one on the sources alone"
            )
        self._data = clf.to_bytes()
        # the model itself, to look at: what a key predicts that has learned nothing
        self.clf = model_of_bytes(self._data, "the base")

    @classmethod
    def fit(cls, sources: Sequence[Domain], method: str | Model = "hedgerow", **options: Any) -> Self:
        """The sources, fitted without rows of any target; `method` may be an estimator, of which a clone is fitted."""
        if isinstance(method, str):
            method = OnlineTransferClassifier(method, **options)
        elif not isinstance(method, Model):
            raise InputError(
                f"method: a name, an OnlineTransferClassifier or OnlineTransferRegressor, not {type(method).__name__}"
            )
        elif options:
            raise InputError(f"a fleet of an estimator takes no options ({', '.join(options)}): set them on it")
        return cls(clone(method).fit_domains(sources))

    def to_bytes(self) -> bytes:
        """The content of a model file: what a worker is sent, once."""
        return self._data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse."""
        return cls(model_of_bytes(data, "the base of a fleet"))

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that stand for all that is shared; the state of every key has them."""
        header = repr((self.clf.constants_.digest, self.clf.learner_.plan_to_json(), self.classes.tolist()))
        if self.clf.table_ is not None:  # sources with other words may become the same numbers
            header += json.dumps(self.clf.table_.to_json(), sort_keys=True)
        return hashlib.sha256(header.encode()).digest()[:16]

    @property
    def classes(self) -> Array:
        """The classes of the sources; a regressor has none."""
        return self.clf.classes_ if isinstance(self.clf, OnlineTransferClassifier) else np.empty(0)

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return int(self.clf.n_features_in_)

    def model(self, state: KeyState, name: str = "a key") -> Model:
        """A model of one's own that has learned the rows of a state; the constants are shared."""
        if state.snapshot:
            clf = type(self.clf).from_bytes(state.snapshot, constants=self.clf.constants_, name=name)
        else:
            clf = copy.deepcopy(self.clf)
        if len(state):
            weights = None if (state.weights == 1).all() else state.weights
            clf.partial_fit(state.X, self._labels(state, name), sample_weight=weights)
        return clf

    def _labels(self, state: KeyState, name: str) -> Array:
        """Labels by their codes: places among the classes of the base and then the key's own; None for no label."""
        if isinstance(self.clf, OnlineTransferRegressor):
            return state.codes
        classes, codes = [*self.classes.tolist(), *state.new_classes.tolist()], state.codes
        if codes.max(initial=MISSING) >= len(classes) or codes.min(initial=0) < MISSING:
            raise InputError(
                f"{name}: its state names a class that it does not have ({len(classes)} are known); restore it"
            )
        return objects([None if code == MISSING else classes[code] for code in codes.tolist()])

    def new_classes(self, clf: Model | None) -> Array:
        """Classes of a key's model that the sources do not have."""
        return objects(clf.classes_[len(self.classes) :].tolist() if isinstance(clf, OnlineTransferClassifier) else [])

    def snapshot(self, clf: Model) -> KeyState:
        """All that a model of one's own knows, without its rows."""
        data = clf.to_bytes(constants=False)
        return replace(KeyState.empty(self.n_features), new_classes=self.new_classes(clf), snapshot=data)

    def member(self, state: bytes | None = None, name: str = "a key") -> Member:
        """The model of one key, from its state or, where it has none, from the start. `name` stands in errors."""
        known = KeyState.empty(self.n_features) if state is None else KeyState.from_bytes(state, self.digest, name)
        if known.X.shape[1] != self.n_features:
            raise InputError(f"{name}: its state has rows of {known.X.shape[1]} features, not {self.n_features}")
        return Member(self, known, name)

    def wants_snapshot(self, rows: int, size: int) -> bool:
        """Whether so many rows are better kept as a snapshot of this size (bytes)."""
        return rows > MOST_ROWS or (rows > FEW and 8 * rows * self.n_features > size)


# -- batches of keyed rows: checked row by row, so that one bad row need not stop the others, and as bytes -------------
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


@dataclass(frozen=True)
class Batch:
    """Rows with their keys; those that are `learned` have weights and perhaps labels, the others are predicted only."""

    keys: list[Key]
    X: Array
    labels: Array
    weights: Array
    learned: Array

    @classmethod
    def of(cls, keys: list[Key], X: Array, labels: Array | None, weights: Array | None = None) -> Batch:
        """All rows are learned, with these labels (None: none), or, without labels, predicted."""
        n, learned = len(keys), labels is not None
        labels = np.full(n, None, dtype=object) if labels is None else labels
        return cls(keys, X, labels, np.ones(n) if weights is None else weights, np.full(n, learned))

    def some(self, places: list[int]) -> Batch:
        """These rows."""
        keys = [self.keys[i] for i in places]
        return Batch(keys, self.X[places], self.labels[places], self.weights[places], self.learned[places])

    @cached_property
    def by_key(self) -> dict[Key, list[int]]:
        """The places of each key's rows, in order."""
        places: dict[Key, list[int]] = {}
        for i, key in enumerate(self.keys):
            places.setdefault(key, []).append(i)
        return places

    def codes(self, clf: Model) -> Array:
        """The labels as `codes_of` a model has them."""
        return codes_of(clf, self.labels) if self.learned.any() else np.full(len(self.keys), MISSING)

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
        labels = objects([tuple(label) if isinstance(label, list) else label for label in about["labels"]])
        return cls.of(about["keys"], X, labels, np.array(about.get("weights", np.ones(rows)), np.float64))


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
    rows, bad = (np.asarray(dense(clf.as_matrix(X)), np.float64), {}) if letters is None else usable_rows(clf, X)
    if len(given) != len(rows):
        raise InputError(f"{len(given)} keys for {len(rows)} rows of X; give one a row")
    labels, weights = (None, None) if y is None else weighted_labels(y, sample_weight, len(rows))
    if letters is not None:
        reasons |= {i: reason for i, reason in bad.items() if i not in reasons}
        letters += [DeadLetter(i, given[i], reason) for i, reason in reasons.items()]
    good = [i for i in range(len(rows)) if i not in reasons] if reasons else list(range(len(rows)))
    batch = Batch.of(given, rows, labels, weights)
    return (batch.some(good) if reasons else batch), good


def usable_rows(clf: Model, X: Any, names: Sequence[str] | None = None) -> tuple[Array, dict[int, str]]:
    """The rows as numbers, and those that cannot be used, with the reason; `names` are those of the features."""
    reasons: dict[int, str] = {}
    if type(X) is np.ndarray and X.ndim == 2 and X.shape[1] == clf.n_features_in_ and X.dtype.kind in "fiu":
        rows = np.asarray(X, np.float64)
    elif clf.table_ is not None and (encoded := usable(clf.table_, X)) is not None:
        with np.errstate(over="ignore"):  # what is too large is found with what is not finite
            rows, reasons = encoded[0].astype(clf.learner_.dtype).astype(np.float64), encoded[1]
        names = clf.table_.feature_names
    else:
        rows = np.asarray(dense(clf.as_matrix(X)), np.float64)
    with np.errstate(invalid="ignore"):
        good = np.asarray(np.abs(rows) <= LARGE)
    if clf.learner_.gaps:
        good |= np.isnan(rows)
    for i in np.flatnonzero(~good.all(axis=1)).tolist():
        columns = np.flatnonzero(~good[i])[:3].tolist()
        bad = ", ".join(f"feature {k} ({rows[i, k]})" if names is None else names[k] for k in columns)
        reasons[i] = f"missing or not finite: {bad}; fill it before, or leave the row out"
    return rows, reasons
