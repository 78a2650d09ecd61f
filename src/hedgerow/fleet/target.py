"""One key of a fleet as an estimator: what it learns is the key's, whoever holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from hedgerow.core.arrays import Array
from hedgerow.core.labels import plain
from hedgerow.estimator import OnlineTransferClassifier

if TYPE_CHECKING:
    from hedgerow.fleet.fleet import Fleet
    from hedgerow.fleet.keys import Key


class Target(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """`fleet[key]`: the verbs of an `OnlineTransferClassifier`, without `fit`."""

    def __init__(self, fleet: Fleet, key: Key) -> None:
        self.fleet, self.key = fleet, key

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Target:
        return self  # a key is one, however often it is asked for

    def predict(self, X: Any) -> Array:
        """The most likely class of each row."""
        return self.fleet.predict([self.key] * len(X), X)

    def predict_proba(self, X: Any) -> Array:
        """A probability a class of `classes_`."""
        found = list(self.fleet.said([self.key] * len(X), X))
        out = np.empty((len(X), found[0][1].P.shape[1] if found else len(self.classes_)))
        for places, said in found:
            out[places] = said.P
        return out

    def predict_one(self, x: Any) -> Any:
        """The most likely class of one instance."""
        return plain(self.predict(self._row(x))[0])

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Target:
        """Learn labelled rows in order; `classes` is there for scikit-learn, the fleet knows its own."""
        self.fleet.learn([self.key] * len(X), X, y, sample_weight)
        return self

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> Target:
        """Learn one instance."""
        self.fleet.learn([self.key], self._row(x), [y], None if weight == 1 else [weight])
        return self

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """The prediction made for each row before its label was learned."""
        return self.fleet.predict_then_learn([self.key] * len(X), X, y, sample_weight)

    def model(self) -> OnlineTransferClassifier:
        """A model of one's own that knows what the key knows, to look at or to save."""
        return self.fleet.model(self.key)

    @property
    def classes_(self) -> Array:
        """The classes of the sources, then those that this key has met."""
        return self.model().classes_

    @property
    def seen_(self) -> int:
        """Labels learned so far."""
        return self.model().seen_

    @property
    def mistakes_(self) -> int:
        """Mistakes so far."""
        return self.model().mistakes_

    @property
    def weights_(self) -> Array:
        """Who is trusted."""
        return self.model().weights_

    def _row(self, x: Any) -> Array:
        row = self.fleet.base.clf.as_row(x)
        return np.asarray(row)[None] if row.ndim == 1 else np.asarray(row.toarray())
