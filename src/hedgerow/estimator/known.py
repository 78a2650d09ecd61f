"""What a fitted model says of itself: who is trusted, how far the domains are apart, mistakes and their bound."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from hedgerow.align import Info
from hedgerow.core.arrays import Array
from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError, require
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.labels import Codes
from hedgerow.core.linalg import one_blas_thread
from hedgerow.drift import Drift
from hedgerow.learner import OnlineLearner
from hedgerow.tables.encoder import TableEncoder

if TYPE_CHECKING:
    from hedgerow.estimator.show import Shown


# `clf.plot()`: who is trusted and how far the sources are, with matplotlib.
MOST = 12  # experts that are drawn


def plot(clf: Known) -> Any:
    """Two axes: weights of the experts, largest first, and the discrepancy of each source, if any."""
    pyplot = require("matplotlib.pyplot", "plot")
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    pairs = sorted(zip(clf.expert_names_, clf.weights_.tolist(), strict=True), key=lambda pair: -pair[1])[:MOST]
    _bars(axes[0], pairs, "weight")
    apart = list(zip(clf.source_names_, clf.discrepancy_.tolist(), strict=True))
    _bars(axes[1], apart, "discrepancy to the target")
    share = f", {clf.mistakes_} mistakes in {clf.seen_} labels, bound {clf.bound_:.1f}" if clf.seen_ else ""
    figure.suptitle(f"{getattr(clf, 'method', clf.learner_.kind)}{share}")
    return axes


def _bars(ax: Any, pairs: list[tuple[str, float]], label: str) -> None:
    ax.barh([name for name, _ in pairs][::-1], [value for _, value in pairs][::-1])
    ax.set_xlabel(label)
    ax.spines[["top", "right"]].set_visible(False)


class Known(BaseEstimator):  # type: ignore[misc]
    """A learner, its classes and its lock. Reading changes nothing, and is done under the lock."""

    learner_: OnlineLearner
    classes_: Array
    table_: TableEncoder | None = None
    _codes: Codes
    _lock: threading.RLock

    def _install(self, learner: OnlineLearner, codes: Codes, sources: list[str], infos: list[Info]) -> None:
        with self.__dict__.setdefault("_lock", threading.RLock()):
            self.learner_, self._codes, self.classes_ = learner, codes, codes.classes
            self.source_names_, self.info_ = sources, infos
            self.expert_names_ = learner.expert_names
            self.dim_ = learner.dim

    @property
    def _fitted(self) -> threading.RLock:
        """The lock of a fitted model that can be used."""
        lock = self.__dict__.get("_lock")
        if lock is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
        if self.learner_.damaged:
            raise InputError(
                f"an error cut a step of learning in two ({self.learner_.damaged}); load the model as it was saved last"
            )
        return lock  # type: ignore[no-any-return]

    def _html_repr(self) -> str:
        """What a notebook shows (scikit-learn asks for it by this name): a fitted model itself, else its parameters."""
        if "_lock" not in self.__dict__ or self.learner_.damaged:
            return str(super()._html_repr())
        from hedgerow.estimator.show import html

        with self._fitted:
            return html(self)

    def diagram(self) -> Shown:
        """scikit-learn's own diagram: the parameters."""
        from hedgerow.estimator.show import Shown

        return Shown(str(super()._html_repr()))

    def plot(self) -> Any:
        """Weights of the experts and discrepancies of the sources, drawn with matplotlib: two axes."""

        with self._fitted:
            return plot(self)

    @property
    def weights_(self) -> Array:
        """Who is trusted: one weight an expert, in the order of `expert_names_`."""
        with self._fitted:
            return self.learner_.weights

    @property
    def discrepancy_(self) -> Array:
        """How far apart each source and the target are, in its space: sum_k |A^T g_k|^2 over the classes both have."""
        with self._fitted, uninterrupted(), one_blas_thread:
            return self.learner_.discrepancies()

    @property
    def mistakes_(self) -> int:
        """Mistakes so far, each counted when its label was learned."""
        return self.learner_.mistakes

    @property
    def seen_(self) -> int:
        """Labels learned so far."""
        return self.learner_.seen

    @property
    def hedge_loss_(self) -> float:
        """sum_t p_t . loss_t, what the mixer's weights suffered so far; this is what Hedge's bound is about."""
        return self.learner_.mixture_loss

    @property
    def bound_(self) -> float:
        """The guarantee for what was observed so far; `guarantee_` says in words what it bounds."""
        with self._fitted:
            return self.learner_.bound

    @property
    def guarantee_(self) -> str:
        """What `bound_` bounds."""
        return self.learner_.guarantee

    @property
    def drift_(self) -> Drift:
        """Whether the target seems to have changed: alarms so far, and how near the next one is."""
        with self._fitted:
            return self.learner_.drift

    @property
    def constants_(self) -> Constants:
        """What never changes after `fit`; models of one fit share it (`save(constants=False)`)."""
        return self.learner_.constants
