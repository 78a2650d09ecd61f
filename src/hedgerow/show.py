"""How a model shows itself: as a card of HTML in a notebook, as a figure, and while a stream runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from hedgerow.base import NamedValues, OnlineTransferEstimator
from hedgerow.core.arrays import Array, rows_from
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, require
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.regressor import OnlineTransferRegressor

FEW = 50  # labels: before, shares say little
FAR = 3.0  # times the median discrepancy
OURS = ("hedgerow", "hedgerow-linear")
LEAST, MOST, SMALL = 3, 10, 0.001  # experts that get a bar: those that count, at least three and at most ten
DRAWN = 12  # experts in a figure


@dataclass(frozen=True)
class Shown:
    """Something that a notebook shows as HTML.

    >>> Shown("<b>x</b>")._repr_html_()
    '<b>x</b>'
    """

    html: str

    def _repr_html_(self) -> str:
        return self.html


def advice(clf: OnlineTransferEstimator) -> list[str]:
    """What to try next, in sentences, each with what it was read from: at most a handful, and none is an answer too."""
    items, seen = [], clf.seen_
    if not seen:
        items.append("No label was learned yet: predict_then_learn(X, y), or learn_one(x, y) after each prediction.")
    drift = clf.drift_
    if drift.is_fresh(seen):
        items.append(
            f"The target seems to have changed after label {drift.last} ({drift.alarms} alarm"
            f"{'s' if drift.alarms > 1 else ''}): look at the rows since then, or fit again with newer ones."
        )
    if not isinstance(clf, OnlineTransferClassifier):
        return items
    counts = clf.learner_.target_now().class_counts
    if seen >= FEW and clf.mistakes_ / seen >= 1 - counts.max() / max(counts.sum(), 1):
        items.append(
            f"{clf.mistakes_ / seen:.0%} mistakes are no better than always naming the most frequent class: are labels "
            "and columns those of the sources?"
        )
    apart = clf.discrepancy_
    far, median = max(apart, key=apart.__getitem__, default=""), float(np.median(apart.array)) if apart else 0.0
    if len(apart) > 2 and apart[far] > FAR * median > 0:
        items.append(f"Source {far!r} is {apart[far] / median:.0f} times as far as the median: try without it.")
    if clf.method_ not in OURS:
        items.append("Compare with method='hedgerow', our own learner.")
    return items


def html(clf: OnlineTransferEstimator) -> str:
    """Who is trusted, how far the sources are, mistakes and bound, and what to try next."""
    return card(summary(clf))


def card(*parts: str) -> str:
    """Parts in a frame of our own, in the colours of the notebook."""
    style = (resources.files("hedgerow") / "card.css").read_text(encoding="utf-8")
    return f'<style>\n{style}</style><div class="hedgerow-card">{"".join(parts)}</div>'


def summary(clf: OnlineTransferEstimator) -> str:
    """What `html` shows, without the frame."""
    weights = _largest_first(clf.weights_)
    shown = min(max(sum(weight >= SMALL for _, weight in weights), LEAST), MOST)
    rest = weights[shown:]
    more = f'<p class="muted">and {len(rest)} more, {sum(w for _, w in rest):.1%} together</p>' if rest else ""
    text = [_head(clf), "<h4>Experts and their weights</h4>", bars(weights[:shown], "{:.1%}"), more]
    if apart := _apart(clf):
        text += ["<h4>Sources: discrepancy to the target</h4>", bars(apart, "{:.3g}", other=True)]
    items = advice(clf)
    if items:
        text += ["<h4>What to try next</h4>", *(f"<p>{escape(item)}</p>" for item in items)]
    text.append('<p class="muted">clf.plot() draws this, clf.diagram() shows the parameters.</p>')
    return "".join(text)


def so_far(model: OnlineTransferEstimator) -> str:
    """How good a model was until now; empty before the first label."""
    if not model.seen_:
        return ""
    if isinstance(model, OnlineTransferRegressor):
        inside = ", ".join(f"{share:.1%} inside their {c:.0%} intervals" for c, share in model.coverage_.items())
        return f"RMSE {model.rmse_:.4g} over {model.seen_} labels, {inside}"
    assert isinstance(model, OnlineTransferClassifier)
    return f"{model.mistakes_} mistakes in {model.seen_} labels ({model.mistakes_ / model.seen_:.1%})"


def _apart(model: OnlineTransferEstimator) -> list[tuple[str, float]]:
    """The discrepancies of the sources; a regressor has none."""
    return list(model.discrepancy_.items()) if isinstance(model, OnlineTransferClassifier) else []


def _title(model: OnlineTransferEstimator) -> str:
    return model.method_ if isinstance(model, OnlineTransferClassifier) else type(model).__name__


def _largest_first(values: NamedValues) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda pair: -pair[1])


def _head(clf: OnlineTransferEstimator) -> str:
    size = f"{clf.n_features_in_} features, {len(clf.source_names_)} sources"
    if isinstance(clf, OnlineTransferClassifier):
        size += f", {len(clf.classes_)} classes"
    head, score = f"<p><b>{escape(_title(clf))}</b> <span class='muted'>{size}", so_far(clf)
    if not score:
        return f"{head}; no label learned yet</span></p>"
    bound = f"guarantee: at most {clf.bound_:.1f}, on {escape(clf.guarantee_)}"
    return f"{head}</span></p><p>{score}; <span class='muted'>{bound}</span></p>"


def bars(pairs: Sequence[tuple[str, float]], form: str, other: bool = False) -> str:
    """Names, bars as long as the numbers, the numbers."""
    top = max((abs(value) for _, value in pairs), default=0.0) or 1.0
    kind = ' class="other"' if other else ""
    rows = (
        f'<tr><td>{escape(str(name))}</td><td class="bar">'
        f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" height="9" role="presentation">'
        f'<rect{kind} width="{100 * abs(value) / top:.2f}" height="8"/></svg></td>'
        f'<td class="number">{form.format(value)}</td></tr>'
        for name, value in pairs
    )
    return f"<table>{''.join(rows)}</table>"


def curve(so_far: Sequence[float], newest: Sequence[float], rows: int) -> str:
    """Two curves of shares of mistakes over the stream: so far, and in the newest window."""
    top = max([*so_far, *newest, 0.01])
    step = 600 / max(len(so_far) - 1, 1)

    def line(values: Sequence[float], kind: str) -> str:
        points = " ".join(f"{40 + i * step:.1f},{110 - 100 * value / top:.1f}" for i, value in enumerate(values))
        return f'<polyline{kind} points="{points}"/>'

    return (
        '<svg viewBox="0 0 650 130" role="img" aria-label="share of mistakes over the stream">'
        '<line x1="40" y1="110" x2="640" y2="110"/><line x1="40" y1="10" x2="640" y2="10"/>'
        f'<text x="2" y="14">{top:.0%}</text><text x="14" y="114">0%</text>'
        f'<text x="640" y="126" text-anchor="end">{rows} rows</text>'
        f"{line(newest, ' class=' + chr(34) + 'other' + chr(34))}{line(so_far, '')}</svg>"
    )


# -- a figure ----------------------------------------------------------------------------------------------------------


def plot(clf: OnlineTransferEstimator) -> Any:
    """Two axes: weights of the experts, largest first, and the discrepancy of each source; of a regressor the first."""
    pyplot = require("matplotlib.pyplot", "plot")
    n = 1 + isinstance(clf, OnlineTransferClassifier)
    figure, axes = pyplot.subplots(1, n, figsize=(5 * n, 4), layout="constrained", squeeze=False)
    axes, pairs = axes[0], (_largest_first(clf.weights_)[:DRAWN], _apart(clf))
    for ax, values, label in zip(axes, pairs, ("weight", "discrepancy to the target"), strict=False):
        ax.barh([name for name, _ in values][::-1], [value for _, value in values][::-1])
        ax.set_xlabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    score = f", {so_far(clf)}, bound {clf.bound_:.1f}" if clf.seen_ else ""
    figure.suptitle(_title(clf) + score, wrap=True)
    return axes


# -- while a stream runs -----------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """The predictions, and the shares of mistakes so far and in each window of `every` labelled rows."""

    every: int
    predictions: Array = field(default_factory=lambda: np.empty(0))
    so_far: list[float] = field(default_factory=list)
    newest: list[float] = field(default_factory=list)

    def picture(self, clf: OnlineTransferClassifier) -> Shown:
        """Both curves, and what the model says of itself."""
        drawn = curve(self.so_far, self.newest, len(self.predictions))
        title = f"<h4>Mistakes so far (thick), in the newest {self.every} rows (thin)</h4>"
        return Shown(card(title, drawn, summary(clf)))


def watch(clf: OnlineTransferClassifier, X: Any, y: Any = None, *, every: int = 50) -> Watched:
    """Predict and learn a stream, and show how it goes: a picture in a notebook, a line of text elsewhere.

    Parameters
    ----------
    clf : OnlineTransferClassifier
        A fitted model; it learns.
    X : Domain, array or table
        The rows of the stream.
    y : array or None
        Their labels, None where one is missing; those of a domain are its own.
    every : int
        Rows between two pictures.

    Returns
    -------
    Watched
        The predictions and the curves.

    Examples
    --------
    >>> from hedgerow import load
    >>> domains = load("digits")
    >>> clf = OnlineTransferClassifier("pa").fit_domains([domains["thin"]])
    >>> watched = watch(clf, domains["faded"].X[:100], domains["faded"].y[:100], every=50)  # doctest: +ELLIPSIS
    50 rows, mistakes so far ...%, in the newest 50 ...%; most trusted: ...
    100 rows, mistakes so far ...%, in the newest 50 ...%; most trusted: ...
    >>> len(watched.predictions), len(watched.so_far)
    (100, 2)
    """
    if isinstance(X, Domain):
        if y is not None:
            raise InputError("the labels of a domain are its own: give watch(clf, domain) or watch(clf, X, y)")
        X, y = X.X, X.y
    if y is None:
        raise InputError("a stream is watched by its mistakes: give its labels, None where one is missing")
    if not isinstance(every, int) or every < 1:
        raise InputError(f"every={every!r}: give a whole number of rows, 1 or more")
    X = clf.as_matrix(X)
    if len(y) != X.shape[0]:
        raise InputError(f"{X.shape[0]} rows and {len(y)} labels")
    watched, parts, tell, began = Watched(every), [], _teller(), (clf.seen_, clf.mistakes_)
    for a in range(0, X.shape[0], every):
        b, before = min(a + every, X.shape[0]), (clf.seen_, clf.mistakes_)
        parts.append(clf.predict_then_learn(rows_from(X, a, b), y[a:b]))
        watched.so_far.append(_share(clf, began))
        watched.newest.append(_share(clf, before))
        watched.predictions = np.concatenate(parts)
        tell(clf, watched, b)
    return watched


def _share(clf: OnlineTransferClassifier, since: tuple[int, int]) -> float:
    return (clf.mistakes_ - since[1]) / max(clf.seen_ - since[0], 1)


def _teller() -> Callable[[OnlineTransferClassifier, Watched, int], None]:
    """In a notebook one picture that changes; a line of text elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return lambda clf, watched, rows: print(_line(clf, watched, rows), flush=True)
    display: Any = sys.modules["IPython"].display.display
    handles: list[Any] = []

    def draw(clf: OnlineTransferClassifier, watched: Watched, rows: int) -> None:
        if handles:
            handles[0].update(watched.picture(clf))
        else:
            handles.append(display(watched.picture(clf), display_id=True))

    return draw


def _line(clf: OnlineTransferClassifier, watched: Watched, rows: int) -> str:
    trusted = _largest_first(clf.weights_)[0][0]
    drift = clf.drift_
    changed = f"; the target seems to have changed after label {drift.last}" if drift.is_fresh(clf.seen_) else ""
    return (
        f"{rows} rows, mistakes so far {watched.so_far[-1]:.1%}, in the newest {watched.every} "
        f"{watched.newest[-1]:.1%}; most trusted: {trusted}{changed}"
    )
