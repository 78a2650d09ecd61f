"""A model among river's: `TransferClassifier` is a `river.base.MiniBatchClassifier` that starts from labelled sources.

Needs `pip install 'hedgerow[river]'`.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, require
from hedgerow.core.feature_names import listed
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.estimator.keyed_rows import Keys, learn_row, learn_rows

require("river", extra="river")
from river.base import MiniBatchClassifier  # noqa: E402

if TYPE_CHECKING:
    import pandas as pd


class TransferClassifier(MiniBatchClassifier):
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
        What stands for a key that a row lacks, or that is None or NaN: "zero"; "mean", of the key's values in the
        target so far (of the sources' before there are any); or "refuse".
    new
        What is done with a key that the model does not have: "ignore" or "refuse". A row without any key of the
        sources is refused.
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

    def __init__(
        self,
        sources: Sequence[Domain] | OnlineTransferClassifier | None = (),
        warmup: Domain | None = None,
        *,
        missing: str = "zero",
        new: str = "ignore",
        keys: Sequence[Hashable] | None = None,
        **options: Any,
    ) -> None:
        self.sources, self.keys = sources or None, keys or None  # river cannot look into an empty tuple
        self.warmup, self.missing, self.new, self.options = warmup, missing, new, options
        self._start = self._fitted()
        domains = [] if isinstance(sources, OnlineTransferClassifier) else list(sources or ())
        self._first = Keys.of_model(self._start, domains, warmup, keys or (), missing, new)
        self.classifier, self._keys = copy.copy(self._start), self._first

    def _fitted(self) -> OnlineTransferClassifier:
        """The model before the stream; it is never changed."""
        if isinstance(self.sources, OnlineTransferClassifier):
            given = {**self.options, "warmup": self.warmup, "keys": self.keys}
            extra = [name for name, value in given.items() if value is not None]
            if extra:
                raise InputError(f"{extra[0]}={given[extra[0]]!r}: a fitted model has its own; leave it out")
            clf = self.sources  # as from a file: such a model takes rows without names
            return OnlineTransferClassifier.from_bytes(clf.to_bytes(), constants=clf.constants_)
        clf = OnlineTransferClassifier(**self.options)
        if self.sources is None and self.warmup is None:
            return clf
        if self.keys is not None:
            raise InputError(f"keys={listed(self.keys)}: the domains have keys of their own; leave keys out")
        return clf.fit_domains(list(self.sources or ()), self.warmup)

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """The model as it was before the stream. Sources are shared, and fitted again only if parameters differ."""
        params = self._get_params()
        changed = {name: value for name, value in (new_params or {}).items() if value is not params.get(name, params)}
        if changed:
            return type(self)(**{**params, **changed})
        twin = object.__new__(type(self))
        twin.__dict__.update(vars(self))
        twin.classifier = copy.copy(self.classifier if include_attributes else self._start)
        twin._keys = self._keys if include_attributes else self._first
        return twin

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _knows_a_class(self) -> bool:
        return len(getattr(self.classifier, "classes_", ())) > 0

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """Class -> probability; {} before any class is known."""
        if not self._knows_a_class:
            return {}
        return self.classifier.predict_proba_one(self._keys.filled(self._keys.read(x)[None])[0])

    def learn_one(self, x: Mapping[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn a row; `w` says how much its label counts. None is no label: our own learner uses the row as well."""
        keys = self._keys.known(x)
        rows, keys = keys.learned(keys.read(x)[None])
        learn_row(self.classifier, keys, rows[0], y, w)
        self._keys = keys

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = None) -> None:
        """As `learn_one` of one row after the other."""
        if not len(X):
            return
        keys = self._keys.known(X.columns)
        rows, keys = keys.learned(keys.read_table(X))
        weights = None if w is None else np.broadcast_to(w, len(rows))
        self.classifier, self._keys = learn_rows(self.classifier, keys, rows, y.reset_index(drop=True), weights), keys

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """A row an instance, a column a class; no column before any class is known."""
        import pandas as pd

        if not self._knows_a_class:
            return pd.DataFrame(index=X.index)
        found = self.classifier.predict_proba(self._keys.filled(self._keys.read_table(X)))
        return pd.DataFrame(found, index=X.index, columns=self.classifier.classes_)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The most likely class of each row; None before any class is known."""
        import pandas as pd

        if not self._knows_a_class:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        return pd.Series(self.classifier.predict(self._keys.filled(self._keys.read_table(X))), index=X.index)
