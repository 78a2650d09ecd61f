r"""Levels of coverage, and the prediction sets of a classifier.

The set of a row is :math:`\{k : p_k \ge 1 - q\}` and always the predicted class. There is one :math:`q` a level. It
starts at the level :math:`1 - \alpha`, and after each label

.. math:: q \leftarrow \max(0, q + \gamma (m - \alpha)), \qquad \gamma = 0.02,

with :math:`m = 1` if the label was not in the set and 0 if it was. With :math:`q \ge 1` a set has every class, so a
miss needs :math:`q < 1`, and :math:`q` never exceeds :math:`1 + \gamma (1 - \alpha)`. Every step adds at least
:math:`\gamma (m - \alpha)`. Hence for any sequence of T labels the misses are at most

.. math:: \alpha T + \frac{1 + \gamma (1 - \alpha) - (1 - \alpha)}{\gamma}
    = \alpha T + \frac{\alpha}{\gamma} + 1 - \alpha.

A label of a class that was never met before cannot be in a set. It is not counted, and q stays what it was.

The intervals of a regressor follow another rule (`hedgerow.kernels.regression`): a number has no largest score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import DOUBLE, Spec
from hedgerow.core.errors import InputError

STEP = 0.02
TIE = 1e-6  # probabilities that differ by less are equal: in blocks they are rounded differently
LEVELS = "sets.coverage"
QUANTILE = "sets.quantile"
COUNTS = "sets.counts"
SPECS = {
    LEVELS: Spec(("levels",), DOUBLE, 0, 1, needed=False),
    QUANTILE: Spec(("levels",), DOUBLE, 0, 1 + STEP, needed=False),
    COUNTS: Spec(
        ("levels", 3), "whole", 0, 2.0**53, needed=False
    ),  # labels, those inside, classes in all sets
}


def coverages(coverage: Any) -> tuple[float, ...]:
    """One or several shares between 0 and 1."""
    given = (coverage,) if np.isscalar(coverage) or coverage is None else tuple(coverage)
    good = all(isinstance(c, int | float) and not isinstance(c, bool) and 0 < c < 1 for c in given)
    if not given or not good or len(set(given)) < len(given):
        raise InputError(
            f"coverage={coverage!r}: give a share between 0 and 1, such as 0.9, or several different ones"
        )
    return tuple(float(c) for c in given)


def level_of(levels: Sequence[float], coverage: float | None) -> int:
    """The place of a coverage among those that are tracked; None is the first."""
    if not levels:
        raise InputError(f"no coverage is tracked; fit with coverage={coverage or 0.9!r}")
    if coverage is None:
        return 0
    if coverage not in levels:
        known = ", ".join(map(str, levels))
        raise InputError(
            f"coverage={coverage!r} is not tracked, {known} is; fit with coverage={(*levels, coverage)!r}"
        )
    return levels.index(coverage)


def initial(levels: Sequence[float]) -> dict[str, Array]:
    """The tracker of each level before any label."""
    counts = np.zeros((len(levels), 3), dtype=np.int64)
    return {LEVELS: np.array(levels), QUANTILE: np.array(levels), COUNTS: counts}


def sets(quantile: Array, P: Array, predicted: Array) -> Array:
    """Which classes are in the set of each row (B x K), by probabilities and the classes predicted."""
    inside = 1 - quantile - TIE <= P
    inside[np.arange(len(P)), predicted] = True
    return np.asarray(inside)


def learned(state: Mapping[str, Array], P: Array, predicted: Array, y: Array) -> None:
    """Labels in order (below 0: none), with the probabilities and predictions made before them."""
    levels = state[LEVELS]
    quantile = state[QUANTILE]
    counts = state[COUNTS]
    for p, code, label in zip(P, predicted, y, strict=True):
        if not 0 <= label < len(p):
            continue
        inside = sets(
            quantile[:, None], np.broadcast_to(p, (len(levels), len(p))), np.full(len(levels), code)
        )
        covered = inside[:, label]
        counts += np.stack([np.ones_like(covered), covered, inside.sum(axis=1)], axis=1)
        quantile += STEP * (~covered - (1 - levels))
        np.maximum(quantile, 0.0, out=quantile)
