"""Watch a model while a stream runs: a picture that is drawn anew in a notebook, plain lines everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, rows_from
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.estimator.classifier import OnlineTransferClassifier
from hedgerow.estimator.show import Shown, card, curve, summary


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
    """Predict and learn a stream, a domain or rows with their labels, and show how it goes after every `every` rows.

    >>> from hedgerow import load
    >>> domains = load("digits")
    >>> clf = OnlineTransferClassifier("pa").fit_domains([domains["thin"]])
    >>> found = watch(clf, domains["faded"].X[:100], domains["faded"].y[:100], every=50)  # doctest: +ELLIPSIS
    50 rows, mistakes so far ...%, in the newest 50 ...%; most trusted: ...
    100 rows, mistakes so far ...%, in the newest 50 ...%; most trusted: ...
    >>> len(found.predictions), len(found.so_far)
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
    found, parts, tell, began = Watched(every), [], _teller(), (clf.seen_, clf.mistakes_)
    for a in range(0, X.shape[0], every):
        b, before = min(a + every, X.shape[0]), (clf.seen_, clf.mistakes_)
        parts.append(clf.predict_then_learn(rows_from(X, a, b), y[a:b]))
        found.so_far.append(_share(clf, began))
        found.newest.append(_share(clf, before))
        found.predictions = np.concatenate(parts)
        tell(clf, found, b)
    return found


def _share(clf: OnlineTransferClassifier, since: tuple[int, int]) -> float:
    return (clf.mistakes_ - since[1]) / max(clf.seen_ - since[0], 1)


def _teller() -> Callable[[OnlineTransferClassifier, Watched, int], None]:
    """In a notebook one picture that changes; a line of text elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return lambda clf, found, rows: print(_line(clf, found, rows), flush=True)
    display: Any = sys.modules["IPython"].display.display
    handles: list[Any] = []

    def draw(clf: OnlineTransferClassifier, found: Watched, rows: int) -> None:
        if handles:
            handles[0].update(found.picture(clf))
        else:
            handles.append(display(found.picture(clf), display_id=True))

    return draw


def _line(clf: OnlineTransferClassifier, found: Watched, rows: int) -> str:
    trusted = clf.expert_names_[int(clf.weights_.argmax())]
    drift = clf.drift_
    changed = f"; the target seems to have changed after label {drift.last}" if drift.is_fresh(clf.seen_) else ""
    return (
        f"{rows} rows, mistakes so far {found.so_far[-1]:.1%}, in the newest {found.every} {found.newest[-1]:.1%}; "
        f"most trusted: {trusted}{changed}"
    )
