"""How a fitted model shows itself in a notebook: one piece of HTML, no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hedgerow.estimator.known import Known


# What to try next, in sentences; each says what it was read from.
FEW = 50  # labels: before, shares say little
FAR = 3.0  # times the median discrepancy
OURS = ("hedgerow", "hedgerow-linear")


def advice(clf: Known) -> list[str]:
    """At most a handful; none is an answer too."""
    found, seen = [], clf.seen_
    if not seen:
        found.append("No label was learned yet: predict_then_learn(X, y), or learn_one(x, y) after each prediction.")
    drift = clf.drift_
    if drift.is_fresh(seen):
        found.append(
            f"The target seems to have changed after label {drift.last} ({drift.alarms} alarm"
            f"{'s' if drift.alarms > 1 else ''}): look at the rows since then, or fit again with newer ones."
        )
    counts = clf.learner_.target_now().class_counts
    if seen >= FEW and clf.mistakes_ / seen >= 1 - counts.max() / max(counts.sum(), 1):
        found.append(
            f"{clf.mistakes_ / seen:.0%} mistakes are no better than always naming the most frequent class: are labels "
            "and columns those of the sources?"
        )
    apart = clf.discrepancy_
    if len(apart) > 2 and apart.max() > FAR * np.median(apart) > 0:
        far = clf.source_names_[int(apart.argmax())]
        found.append(
            f"Source {far!r} is {apart.max() / np.median(apart):.0f} times as far as the median: try without it."
        )
    if getattr(clf, "method", OURS[0]) not in OURS:
        found.append("Compare with method='hedgerow', our own learner.")
    return found


LEAST, MOST, SMALL = 3, 10, 0.001  # experts that get a bar: those that count, at least three and at most ten
STYLE = """<style>
.hedgerow-card { color-scheme: light dark; font: 13px/1.5 system-ui, sans-serif; max-width: 46rem; padding: 12px 16px;
  border: 1px solid light-dark(#dcdfda, #343a40); border-radius: 8px;
  background: light-dark(#ffffff, #1c2024); color: light-dark(#1b1f1c, #e9ecea); }
[data-jp-theme-light="true"] .hedgerow-card, .vscode-light .hedgerow-card { color-scheme: light; }
[data-jp-theme-light="false"] .hedgerow-card, .vscode-dark .hedgerow-card { color-scheme: dark; }
.hedgerow-card h4 { margin: 10px 0 2px; font-size: 13px; }
.hedgerow-card p { margin: 2px 0; }
.hedgerow-card .muted { color: light-dark(#555c57, #a9b1ac); }
.hedgerow-card table { border-collapse: collapse; width: 100%; background: none; font: inherit; }
.hedgerow-card td { padding: 1px 8px 1px 0; border: 0; text-align: left; background: none;
  color: light-dark(#1b1f1c, #e9ecea); }
.hedgerow-card td.number { text-align: right; width: 5rem; font-variant-numeric: tabular-nums; }
.hedgerow-card td.bar { width: 50%; }
.hedgerow-card svg { display: block; width: 100%; }
.hedgerow-card rect { fill: light-dark(#1d6344, #7fd3a8); }
.hedgerow-card rect.other { fill: light-dark(#0068a8, #59b4ee); }
.hedgerow-card polyline { fill: none; stroke: light-dark(#1d6344, #7fd3a8); stroke-width: 2; }
.hedgerow-card polyline.other { stroke: light-dark(#c04a00, #ff9d57); stroke-width: 1.2; }
.hedgerow-card line { stroke: light-dark(#dcdfda, #343a40); }
.hedgerow-card text { fill: light-dark(#555c57, #a9b1ac); font-size: 11px; }
</style>"""


@dataclass(frozen=True)
class Shown:
    """Something that a notebook shows as HTML.

    >>> Shown("<b>x</b>")._repr_html_()
    '<b>x</b>'
    """

    html: str

    def _repr_html_(self) -> str:
        return self.html


def card(*parts: str) -> str:
    """Parts in a frame of our own, in the colours of the notebook."""
    return f'{STYLE}<div class="hedgerow-card">{"".join(parts)}</div>'


def html(clf: Known) -> str:
    """Who is trusted, how far the sources are, mistakes and bound, and what to try next."""
    return card(summary(clf))


def summary(clf: Known) -> str:
    """The same without the frame."""
    weights = sorted(zip(clf.expert_names_, clf.weights_.tolist(), strict=True), key=lambda pair: -pair[1])
    shown = min(max(sum(weight >= SMALL for _, weight in weights), LEAST), MOST)
    rest = weights[shown:]
    more = f'<p class="muted">and {len(rest)} more, {sum(w for _, w in rest):.1%} together</p>' if rest else ""
    apart = list(zip(clf.source_names_, clf.discrepancy_.tolist(), strict=True))
    text = [_head(clf), "<h4>Experts and their weights</h4>", bars(weights[:shown], "{:.1%}"), more]
    if apart:
        text += ["<h4>Sources: discrepancy to the target</h4>", bars(apart, "{:.3g}", other=True)]
    items = advice(clf)
    if items:
        text += ["<h4>What to try next</h4>", *(f"<p>{escape(item)}</p>" for item in items)]
    text.append('<p class="muted">clf.plot() draws this, clf.diagram() shows the parameters.</p>')
    return "".join(text)


def _head(clf: Known) -> str:
    method = escape(str(getattr(clf, "method", clf.learner_.kind)))
    size = f"{clf.n_features_in_} features, {len(clf.classes_)} classes, {len(clf.source_names_)} sources"
    if not clf.seen_:
        return f"<p><b>{method}</b> <span class='muted'>{size}; no label learned yet</span></p>"
    share = f"{clf.mistakes_} mistakes in {clf.seen_} labels ({clf.mistakes_ / clf.seen_:.1%})"
    bound = f"guarantee: at most {clf.bound_:.1f}, on {escape(clf.guarantee_)}"
    return f"<p><b>{method}</b> <span class='muted'>{size}</span></p><p>{share}; <span class='muted'>{bound}</span></p>"


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
