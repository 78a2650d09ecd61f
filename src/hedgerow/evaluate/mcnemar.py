"""Two methods on the instances of one stream: McNemar's exact test on those that only one of them got wrong.

Wilcoxon's test (`hedgerow.evaluate.stats`) needs several orders of a stream. A stream that is kept in its order in time
is one run, and its instances are the pairs. They follow each other in time, and a learner's mistakes do too: the test
takes them for independent, so its p is a lower limit rather than the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.evaluate.stats import Pair, holm


def mcnemar(first: str, second: str, wrong: Mapping[str, Array]) -> Pair:
    """P(that many or more extreme of the b + c instances on which they differ are one's), under a fair coin.

    `difference` is in points of the mistake rate, `blocks` the instances that differ, `statistic` the lesser count.

    >>> wrong = {"a": np.array([1, 0, 0, 0, 0, 0, 0], bool), "b": np.array([1, 1, 1, 1, 1, 1, 1], bool)}
    >>> mcnemar("a", "b", wrong).p
    0.03125
    """
    from scipy.stats import binomtest

    a, b = (np.asarray(wrong[name], dtype=bool) for name in (first, second))
    only_first, only_second = int((a & ~b).sum()), int((b & ~a).sum())
    differing = only_first + only_second
    p = float(binomtest(only_first, differing).pvalue) if differing else 1.0
    points = 100 * (only_first - only_second) / max(len(a), 1)
    return Pair(first, second, points, differing, float(min(only_first, only_second)), p, p)


def against_each(first: str, wrong: Mapping[str, Array]) -> list[Pair]:
    """One method against each other one, Holm-corrected over them.

    >>> every = {name: np.arange(8) % k == 0 for name, k in {"a": 8, "b": 2, "c": 1}.items()}
    >>> [(pair.second, pair.blocks, pair.adjusted) for pair in against_each("a", every)]
    [('b', 3, 0.25), ('c', 7, 0.03125)]
    """
    pairs = [mcnemar(first, name, wrong) for name in wrong if name != first]
    adjusted = holm([pair.p for pair in pairs])
    return [replace(pair, adjusted=q) for pair, q in zip(pairs, adjusted, strict=True)]
