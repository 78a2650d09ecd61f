"""Models among river's: `TransferClassifier` and `TransferRegressor` start from labelled sources.

`MistakesDrift` is the drift rule of `hedgerow.drift` as a detector of river. Needs `pip install 'hedgerow[river]'`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain, listed
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import as_float
from hedgerow.drift import THRESHOLD, Drift, DriftDetector
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.regressor import OnlineTransferRegressor

require("river", extra="river")
from river.base import DriftAndWarningDetector, MiniBatchClassifier, MiniBatchRegressor  # noqa: E402

if TYPE_CHECKING:
    import pandas as pd

WARNING = 0.5  # of the evidence for an alarm
POLICIES = {"missing": ("zero", "refuse"), "new": ("ignore", "refuse")}


@dataclass(frozen=True)
class Keys:
    """The keys of a model in its order, and what is done with one that a row lacks, or that the model does not know.

    With `sources` a row that has keys and none of these is refused: it is of another table.

    >>> keys = Keys(("a", "b"), "zero", "ignore")
    >>> keys.filled(keys.read({"a": 2, "c": 7})[None])
    array([[2., 0.]])
    """

    names: tuple[Hashable, ...]
    missing: str
    new: str
    sources: bool = False

    def __post_init__(self) -> None:
        for policy, known in POLICIES.items():
            if getattr(self, policy) not in known:
                raise InputError(
                    f"{policy}={getattr(self, policy)!r}: use one of {', '.join(known)}"
                )

    def known(self, first: Iterable[Hashable]) -> Keys:
        """With the keys of a first row, if there are none yet, in an order that does not depend on the row's."""
        if self.names:
            return self
        names = tuple(sorted(first, key=repr))
        if not names:
            raise InputError(
                "the first row has no keys; name the keys in advance if rows may be empty"
            )
        return replace(self, names=names)

    def read(self, x: Mapping[Hashable, Any]) -> Array:
        """The values of one row, NaN in its gaps: keys that it lacks, and those with None."""
        self._check_new(x)
        try:
            return np.array(
                [np.nan if (value := x.get(name)) is None else value for name in self.names],
                dtype=float,
            )
        except (TypeError, ValueError) as error:
            bad = [
                name for name in self.names if x.get(name) is not None and as_float(x[name]) is None
            ]
            what = (
                f"{x[bad[0]]!r} at key {bad[0]!r} is not a number"
                if bad
                else f"not a row of numbers ({error})"
            )
            raise InputError(f"x: {what}; encode or drop what is not a number") from error

    def read_table(self, X: pd.DataFrame) -> Array:
        """The same of a pandas table, a column for each key."""
        self._check_new(X.columns)
        try:
            return np.asarray(
                X.reindex(columns=list(self.names)).to_numpy(dtype=np.float64, na_value=np.nan)
            )
        except (TypeError, ValueError) as error:
            raise InputError(
                f"X: a column has values that are not numbers ({error}); encode or drop it"
            ) from error

    def filled(self, rows: Array) -> Array:
        """Rows without gaps."""
        gaps = np.isnan(rows)
        if self.missing == "refuse" and gaps.any():
            lacking = [self.names[j] for j in np.flatnonzero(gaps.any(axis=0))]
            raise InputError(
                f"x: missing {listed(lacking)}; give every key a value, or set missing='zero'"
            )
        return np.where(gaps, 0.0, rows)

    def _check_new(self, keys: Iterable[Hashable]) -> None:
        known = set(self.names)
        unexpected = (
            [name for name in keys if name not in known]
            if self.new == "refuse" or self.sources
            else []
        )
        if unexpected and self.new == "refuse":
            raise InputError(
                f"x: unexpected {listed(unexpected)}; leave these keys out, or set new='ignore'"
            )
        if unexpected and known.isdisjoint(keys):
            raise InputError(
                f"x: no key is the sources': {listed(unexpected)}, theirs are {listed(self.names)}"
            )


Model = OnlineTransferClassifier | OnlineTransferRegressor


class _Transfer:
    """What both kinds share: a model that is fitted when it is made, keys, clones, learning."""

    _kind: type[Model]
    _unknown: Any = None  # what is predicted before anything is known
    _get_params: Callable[[], dict[str, Any]]  # river's
    _model: Any

    def __init__(
        self,
        sources: Sequence[Domain] | Model | None = (),
        warmup: Domain | None = None,
        *,
        missing: str = "zero",
        new: str = "ignore",
        keys: Sequence[Hashable] | None = None,
        **options: Any,
    ) -> None:
        self.sources = sources or None  # river cannot look into an empty tuple
        self.keys = keys or None
        self.warmup = warmup
        self.missing = missing
        self.new = new
        self.options = options
        self._start = self._fitted()
        names = tuple(keys or ())
        width = getattr(self._start, "n_features_in_", None)
        if width is not None:
            names = tuple(getattr(self._start, "feature_names_in_", range(width)))
        self._tables = (
            getattr(self._start, "table_", None) is not None
        )  # their encoder reads keys, and knows gaps
        self._first = Keys(names, missing, new, sources=width is not None)
        self._model = copy.copy(self._start)
        self._keys = self._first

    def _fitted(self) -> Model:
        """The model before the stream; it is never changed."""
        if isinstance(self.sources, Model):
            for name, value in {**self.options, "warmup": self.warmup, "keys": self.keys}.items():
                if value is not None:
                    raise InputError(f"{name}={value!r}: a fitted model has its own; leave it out")
            model = self.sources  # as from a file: such a model takes rows without names
            return self._kind.from_bytes(model.to_bytes(), constants=model.constants_)
        model = self._kind(**self.options)
        if self.sources is None and self.warmup is None:
            return model
        if self.keys is not None:
            raise InputError(
                f"keys={listed(self.keys)}: the domains have keys of their own; leave keys out"
            )
        return model.fit_domains(list(self.sources or ()), self.warmup)

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """The model as it was before the stream. Sources are shared, and fitted again only if parameters differ."""
        params = self._get_params()
        changed = {
            name: value
            for name, value in (new_params or {}).items()
            if value is not params.get(name, params)
        }
        if changed:
            return type(self)(**{**params, **changed})
        twin = object.__new__(type(self))
        twin.__dict__.update(vars(self))
        twin._model = copy.copy(self._model if include_attributes else self._start)
        twin._keys = self._keys if include_attributes else self._first
        return twin

    def learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn a row; `w` says how much its label counts. None is no label: our own learner uses the row as well."""
        if self._tables:
            self._model.learn_one(x, y, w)
            return
        keys = self._keys.known(x)
        self._learn(keys, keys.read(x)[None], [y], [w])

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = None) -> None:
        """As `learn_one` of one row after the other."""
        weights = None if w is None else np.broadcast_to(w, len(X))
        if len(X) and self._tables:
            _in_turn(self._model, X, y, weights)
        elif len(X):
            keys = self._keys.known(X.columns)
            self._learn(keys, keys.read_table(X), y.reset_index(drop=True), weights)

    @property
    def _ready(self) -> bool:
        """Whether anything can be predicted: something was learned, and of a classifier a class is known."""
        return hasattr(self._model, "learner_") and len(getattr(self._model, "classes_", (0,))) > 0

    def _row(self, x: Mapping[Hashable, Any]) -> Any:
        """A row as the model reads it: numbers without gaps, or the cells of a table."""
        return x if self._tables else np.asarray(self._keys.filled(self._keys.read(x)[None])[0])

    def _rows(self, X: pd.DataFrame) -> Any:
        """The same of a table."""
        return X if self._tables else self._keys.filled(self._keys.read_table(X))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The prediction for each row; None, of a regressor 0, before anything is known."""
        import pandas as pd

        predictions = (
            self._model.predict(self._rows(X)) if self._ready else [self._unknown] * len(X)
        )
        return pd.Series(predictions, index=X.index)

    def _learn(self, keys: Keys, rows: Array, y: Any, weights: Any) -> None:
        """Learn rows in order, or nothing if there is an error; the first of all gives a model its names."""
        rows = keys.filled(rows)
        model = self._model
        done = 0
        if not hasattr(
            model, "learner_"
        ):  # the first row alone, so that classes come in their order
            done = 1
            model = copy.copy(model)
            first = None if weights is None else weights[:1]
            model.partial_fit(rows[:1], y[:1], sample_weight=first)
            if all(isinstance(name, str) for name in keys.names):
                model.name_features([str(name) for name in keys.names])
        elif len(rows) == 1:
            done = 1
            model.learn_one(rows[0], y[0], 1.0 if weights is None else weights[0])
        if done < len(rows):
            _in_turn(model, rows[done:], y[done:], None if weights is None else weights[done:])
        self._model = model
        self._keys = keys


def _in_turn(model: Any, X: Any, y: Any, weights: Any) -> None:
    """Learn rows in order, each after the labels of those before it."""
    ready = len(getattr(model, "classes_", (0,))) > 0
    (model.predict_then_learn if ready else model.partial_fit)(X, y, sample_weight=weights)


class TransferClassifier(_Transfer, MiniBatchClassifier):
    """Labelled sources in advance, then a stream of dicts.

    The model is fitted when it is made. A clone starts where its model started, with the same sources: drift
    retraining and ensembles go back to them and not to nothing.

    Parameters
    ----------
    sources
        `hedgerow.Domain`s with labels; or a fitted `OnlineTransferClassifier`, from a file for instance. Without any
        the stream is learned alone.
    warmup
        A `Domain` of rows of the target, without labels.
    missing
        What stands for a key that a row lacks, or that is None or NaN: "zero" or "refuse"; means are those of river's
        `StatImputer`, before the model.
    new
        What is done with a key that the model does not have: "ignore" or "refuse". A row without any key of the
        sources is refused. Where sources have categories, dates or gaps, `missing` and `new` are not read: such a
        model has gaps of its own and ignores keys that it does not know.
    keys
        The keys of a model without sources; None takes those of the first row that is learned.
    options
        Those of `OnlineTransferClassifier`: `method`, `preprocess`, `classes` and so on.

    Attributes
    ----------
    classifier
        The `OnlineTransferClassifier` that does the work: `weights_`, `bound_`, `save`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import pandas as pd
    >>> from hedgerow import Domain
    >>> rows = list(datasets.Phishing())
    >>> X, y = pd.DataFrame([x for x, _ in rows[:300]]), [y for _, y in rows[:300]]
    >>> model = TransferClassifier(sources=[Domain("last year", X, y)])
    >>> evaluate.progressive_val_score(rows[300:600], model, metrics.Accuracy())
    Accuracy: ...%
    """

    _kind = OnlineTransferClassifier

    @property
    def classifier(self) -> OnlineTransferClassifier:
        """The classifier that does the work."""
        return self._model  # type: ignore[no-any-return]

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """Class -> probability; {} before any class is known."""
        return self.classifier.predict_proba_one(self._row(x)) if self._ready else {}

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """A row an instance, a column a class; no column before any class is known."""
        import pandas as pd

        if not self._ready:
            return pd.DataFrame(index=X.index)
        shares = self.classifier.predict_proba(self._rows(X))
        return pd.DataFrame(shares, index=X.index, columns=self.classifier.classes_)


class TransferRegressor(_Transfer, MiniBatchRegressor):
    """Sources with their numbers in advance, then a stream of dicts.

    Parameters
    ----------
    sources, warmup, missing, new, keys
        As of `TransferClassifier`; a fitted model is an `OnlineTransferRegressor`.
    options
        Those of `OnlineTransferRegressor`: `coverage` and so on.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import pandas as pd
    >>> from hedgerow import Domain
    >>> rows = list(datasets.TrumpApproval())
    >>> X, y = pd.DataFrame([x for x, _ in rows[:300]]), [y for _, y in rows[:300]]
    >>> model = TransferRegressor(sources=[Domain("last year", X, y)])
    >>> evaluate.progressive_val_score(rows[300:600], model, metrics.MAE())
    MAE: ...
    >>> low, high = model.predict_interval_one(rows[600][0])
    >>> low < high
    True
    """

    _kind = OnlineTransferRegressor
    _unknown = 0.0

    @property
    def regressor(self) -> OnlineTransferRegressor:
        """The regressor that does the work: `weights_`, `bound_`, `save`."""
        return self._model  # type: ignore[no-any-return]

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> float:
        """The number predicted; 0 before anything is known."""
        return self.regressor.predict_one(self._row(x)) if self._ready else 0.0

    def predict_interval_one(
        self, x: Mapping[Hashable, Any], coverage: float | None = None
    ) -> tuple[float, float]:
        """The interval of a row; see `OnlineTransferRegressor.predict_interval`."""
        return self.regressor.predict_interval_one(self._row(x), coverage)


class MistakesDrift(DriftAndWarningDetector):
    """`hedgerow.drift.DriftDetector` as a drift detector of river, with a warning at half of the evidence for an alarm.

    Parameters
    ----------
    experts
        How many other predictors are watched beside the prediction.
    threshold
        The log-likelihood ratio above which there is an alarm.

    Examples
    --------
    >>> detector = MistakesDrift()
    >>> for t in range(600):
    ...     detector.update(t % 10 == 0 if t < 400 else t % 2 == 0)
    ...     if detector.drift_detected:
    ...         print("after label", t + 1)
    after label 432
    """

    def __init__(self, experts: int = 0, threshold: float = THRESHOLD) -> None:
        super().__init__()
        self.experts = experts
        self.threshold = threshold
        self._rule = DriftDetector(experts, threshold)

    def update(self, x: float, experts: Sequence[float] = ()) -> None:
        """Take one label: 1 if the prediction was wrong, and the same for each expert."""
        self._rule.update(x, experts)
        self._drift_detected = self._rule.drift_detected
        self._warning_detected = self._rule.drift_.level > WARNING

    @property
    def drift_(self) -> Drift:
        """The report so far."""
        return self._rule.drift_
