"""`clf.plot()`: who is trusted and how far the sources are, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hedgerow.core.errors import require

if TYPE_CHECKING:
    from hedgerow.estimator.known import Known

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
