"""A stream as a model sees it: predict, then learn; labels at once, late, in batches or never.

    at_once(y)              the label of an instance comes right behind it
    late(.., rounds=D)      the label of instance i comes behind the arrival of instance i + D
    missing(.., rate=p)     a label is given up, with probability p: None comes in its place
    batches(.., size=B)     labels wait until B of them are there

An adaptor takes `Labels` and gives `Labels`, so they compose in any order: `missing(late(at_once(y), 50), 0.1)`. What
the stream's end finds waiting is handed out then: every label, or that it is given up, arrives exactly once. `play`
runs a model over rows and labels; a prediction is made when its instance arrives and is never taken back.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError
from hedgerow.learner import BLOCK


class Labels(NamedTuple):
    """When labels come: y[i], that of instance i, right behind the arrival of instance at[i] >= i; None is given up.

    `at` never falls: labels come in the order of their instances.
    """

    at: Array
    y: Array


def at_once(y: Any) -> Labels:
    """Every label right behind its instance, as it is: numpy must not turn a None among them into something else.

    >>> at_once(["a", "b"]).at.tolist()
    [0, 1]
    """
    column = np.empty(len(y), dtype=object)
    column[:] = y
    return Labels(np.arange(len(y)), column)


def late(labels: Labels, rounds: int) -> Labels:
    """Each label `rounds` arrivals later than it would have come. late(late(s, a), b) is late(s, a + b).

    >>> late(at_once("abc"), 1).at.tolist()
    [1, 2, 2]
    """
    _check_whole("rounds", rounds, 0)
    return labels._replace(at=np.minimum(labels.at + rounds, len(labels.at) - 1))


def missing(labels: Labels, rate: float, seed: int = 0) -> Labels:
    """Each label is given up with probability `rate`: None comes in its place, when it would have come.

    Whether label i is lost depends on the seed and i alone: not on the other adaptors, and what is lost at a low rate
    is lost at every higher one.

    >>> sum(label is not None for label in missing(at_once(range(1000)), 0.9).y)
    104
    """
    if not 0 <= rate <= 1:
        raise InputError(f"rate={rate}: the share of missing labels must be in [0, 1]")
    y = labels.y.copy()
    y[[np.random.default_rng([seed, i]).random() < rate for i in range(len(y))]] = None
    return labels._replace(y=y)


def batches(labels: Labels, size: int) -> Labels:
    """Labels wait until `size` of them are there, and come together; the last batch may be smaller.

    >>> batches(at_once("abc"), 2).at.tolist()
    [1, 1, 2]
    """
    _check_whole("size", size, 1)
    last = len(labels.at) - 1
    ends = np.arange(len(labels.at)) // size * size + size - 1  # the label that completes the batch
    return labels._replace(at=np.where(ends <= last, labels.at[np.minimum(ends, last)], last))


def majority(labels: Labels) -> Array:
    """The rule that any learner has to beat: of each instance, the most frequent label that came before it.

    >>> majority(at_once(["a", "b", "b", "c"])).tolist()
    [None, 'a', 'a', 'b']
    """
    counts: Counter[Any] = Counter()
    predictions = np.empty(len(labels.y), dtype=object)
    learned = 0
    for i, came in enumerate(np.searchsorted(labels.at, np.arange(len(labels.at)))):
        counts.update(label for label in labels.y[learned:came] if label is not None)
        learned = came
        predictions[i] = max(counts, key=lambda label: counts[label], default=None)
    return predictions


def last_known(labels: Labels) -> Array:
    """The rule of one line for rows in their own order: of each instance, the newest label that came before it.

    >>> last_known(late(at_once(["a", "b", "b", "c"]), 1)).tolist()
    [None, None, 'a', 'b']
    """
    predictions = np.empty(len(labels.y), dtype=object)
    known: Any = None
    learned = 0
    for i, came in enumerate(np.searchsorted(labels.at, np.arange(len(labels.at)))):
        known = next((y for y in reversed(labels.y[learned:came]) if y is not None), known)
        learned = came
        predictions[i] = known
    return predictions


def play(model: Any, X: Matrix, labels: Labels, size: int = BLOCK) -> Array:
    """Predict each instance when it arrives, learn each label when it arrives: the predictions.

    The model has `predict`, `partial_fit` and `predict_then_learn`. It gets blocks of at most `size` rows and predicts
    the same as if they came one by one: together go arrivals whose own labels come right behind them, or of which none
    does; and labels of earlier arrivals.

    >>> from hedgerow import OnlineTransferClassifier
    >>> X, y = np.eye(4), [0, 1, 0, 1]
    >>> clf = OnlineTransferClassifier("pa").fit(X, y)
    >>> len(play(clf, X, late(at_once(y), 2)))
    4
    """
    at, y = labels
    predictions = np.empty(len(y), dtype=object)
    due = np.bincount(at, minlength=len(at))  # labels right behind each arrival
    own = (at == np.arange(len(at))) & (due == 1)  # its own, and no other
    known = last_known(labels)
    ends = np.flatnonzero((due > own) | (own != np.append(own[1:], ~own[-1:]))) + 1
    for start, end in pairwise([0, *ends.tolist()]):
        for rows in _pieces(start, end, size):
            predictions[rows] = (
                model.predict_then_learn(X[rows], y[rows]) if own[start] else model.predict(X[rows])
            )
        if due[end - 1] > own[end - 1]:
            first, last = np.searchsorted(at, [end - 1, end])
            for rows in _pieces(first, last, size):
                model.partial_fit(X[rows], y[rows], known=known[rows])
    return predictions


def _pieces(start: int, end: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, end)) for i in range(start, end, size)]


def _check_whole(name: str, value: int, least: int) -> None:
    if value != int(value) or value < least:
        raise InputError(f"{name}={value}: must be a whole number, at least {least}")
