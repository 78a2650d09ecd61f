"""Are methods different, or only lucky? Paired tests within a task, rank tests over tasks.

| question                         | blocks       | test                                                            |
|----------------------------------|--------------|-----------------------------------------------------------------|
| two methods on one task          | orders       | Wilcoxon's signed ranks (exact, also with ties), Holm's correction |
| two methods on one stream        | instances    | McNemar's exact test on those that only one of them got wrong   |
| two methods that find a class    | instances    | the bootstrap of the difference of their measures               |
| all methods over several tasks   | tasks        | Friedman's ranks, Iman and Davenport's F                        |
| which pairs differ over tasks    | tasks        | Nemenyi's critical difference, groups for a diagram             |

Orders of one split share the unlabelled rows, the sources and the instances of the stream: a test over them says
whether two methods differ *on this split*, whatever the order, and nothing about another split or another task. Only
the tests over tasks speak about tasks not run, and a handful of related tasks gives them little power. The instances
of a stream follow each other, and so do a learner's mistakes: McNemar's test takes them for independent, and its p is
rather too small.

References: Wilcoxon 1945; McNemar 1947; Holm 1979; Friedman 1937; Iman and Davenport 1980; Nemenyi 1963; Demsar,
JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown

DIGITS = 12  # differences of rates that agree to this many digits are ties: 7/110 is one number, however it came about
EXACT = (
    200  # pairs up to which the null distribution is counted out; beyond, the normal one is as good
)
ALPHA = 0.05
DRAWS = 200  # of instances, for the bootstrap


class Pair(NamedTuple):
    """A paired test: the mean of first - second, below zero if the first is better, and how many pairs differ.

    `against` adds the names of the two and Holm's p, `adjusted`.
    """

    difference: float
    blocks: int
    statistic: float
    p: float  # two-sided
    first: str = ""
    second: str = ""
    adjusted: float = math.nan

    @property
    def clear(self) -> bool:
        """Whether they differ significantly, at ALPHA."""
        return self.adjusted < ALPHA


def wilcoxon(first: Array, second: Array) -> Pair:
    """R+ = sum of the ranks of |d| over d > 0, R- over d < 0; P(min(R+, R-) or less) under random signs.

    Zero differences are left out (Wilcoxon's own rule), tied ones share their mean rank. The p-value is exact given the
    ranks, ties included, up to 200 pairs; then it is the normal approximation. Where nothing differs it is 1.

    >>> wilcoxon(np.array([1, 1, 1, 5.0]), np.array([2, 3, 4, 5.0]))[:4]
    (-1.5, 3, 0.0, 0.25)
    """
    from scipy import stats

    d = np.round(np.asarray(first) - np.asarray(second), DIGITS)
    mean = float(d.mean()) if len(d) else 0.0
    d = d[d != 0]
    doubled = np.rint(2 * stats.rankdata(np.abs(d))).astype(
        int
    )  # mean ranks are halves: twice them is whole
    lesser = int(min(doubled[d > 0].sum(), doubled[d < 0].sum()))
    normal: dict[str, Any] = {"method": "asymptotic"}  # a word that the stubs of SciPy do not know
    p = stats.wilcoxon(d, **normal).pvalue if len(d) > EXACT else _exact_p(doubled, lesser)
    return Pair(mean, len(d), lesser / 2, float(p))


def _exact_p(doubled: Array, lesser: int) -> float:
    """2 P(R <= lesser), R the sum of the ranks that random signs make positive, counted out with their ties."""
    ways = np.zeros(
        int(doubled.sum()) + 1
    )  # as shares of all sign patterns, so that nothing overflows
    ways[0] = 1.0
    for rank in doubled:
        shifted = np.zeros_like(ways)
        shifted[rank:] = ways[: len(ways) - rank]
        ways = (ways + shifted) / 2
    return float(min(1.0, 2 * ways[: lesser + 1].sum()))


def mcnemar(first: Array, second: Array) -> Pair:
    """Which instances each got wrong: P(that many or more extreme of those that differ are one's), under a fair coin.

    The difference is in points of the mistake rate, the statistic the lesser count.

    >>> mcnemar(np.array([1, 0, 0, 0, 0, 0, 0]), np.ones(7)).p
    0.03125
    """
    from scipy.stats import binomtest

    a = np.asarray(first, dtype=bool)
    b = np.asarray(second, dtype=bool)
    only_first = int((a & ~b).sum())
    only_second = int((b & ~a).sum())
    differing = only_first + only_second
    p = float(binomtest(only_first, differing).pvalue) if differing else 1.0
    return Pair(
        100 * (only_first - only_second) / max(len(a), 1),
        differing,
        float(min(only_first, only_second)),
        p,
    )


def resampled(
    first: Array, second: Array, measure: Callable[[Array, Array], float], own: Array
) -> Pair:
    """The same measure of two methods on drawn instances of the stream, as many of the class and of others each time.

    The difference is that of the measures on the whole stream, negative if the first is larger. p is twice the share of
    draws in which the other one is as large, by the bootstrap (Efron 1979).

    >>> own = np.arange(40) < 8
    >>> resampled(own * 1.0, 1.0 - own, lambda scores, weights: float(weights[own] @ scores[own]), own).p
    0.01
    """
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(DRAWS):
        weights = np.zeros(len(own))
        for part in (np.flatnonzero(own), np.flatnonzero(~own)):
            weights += np.bincount(rng.choice(part, len(part)), minlength=len(own))
        differences.append(measure(second, weights) - measure(first, weights))
    ones = np.ones(len(own))
    drawn = np.array(differences)
    rarer = min(float(np.mean(drawn >= 0)), float(np.mean(drawn <= 0)))
    mean = measure(second, ones) - measure(first, ones)
    return Pair(mean, int(own.sum()), mean, min(1.0, 2 * max(rarer, 1 / DRAWS)))


def against(
    columns: Mapping[str, Array], reference: str, test: Callable[[Array, Array], Pair] = wilcoxon
) -> list[Pair]:
    """The reference against each other method, Holm-corrected over them; the reference stands first in each pair.

    `columns` has the rates of each method (smaller is better) on the same blocks, or, for `mcnemar`, its mistakes.

    >>> rates = {"a": np.array([10, 11, 12, 13, 10, 9]), "b": np.array([20, 22, 25, 21, 23, 24])}
    >>> [(pair.second, pair.p, pair.adjusted) for pair in against(rates, "a")]
    [('b', 0.03125, 0.03125)]
    """
    _matrix(columns)
    if reference not in columns:
        raise unknown("method", reference, columns)
    others = [name for name in columns if name != reference]
    tests = [test(columns[reference], columns[name]) for name in others]
    adjusted = holm([each.p for each in tests])
    named = zip(tests, others, adjusted, strict=True)
    return [each._replace(first=reference, second=name, adjusted=q) for each, name, q in named]


def _matrix(columns: Mapping[str, Array]) -> Array:
    """Blocks x methods, checked: every method has a number in every block."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"rates of different length: {lengths}; give each method the same blocks")
    matrix = np.array([np.asarray(column, dtype=np.float64) for column in columns.values()]).T
    if not np.isfinite(matrix).all():
        row, column = (int(i[0]) for i in np.nonzero(~np.isfinite(matrix)))
        raise InputError(
            f"{list(columns)[column]} has no number in block {row}; leave out the block or the method"
        )
    return matrix


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down: the i-th smallest of m p-values times m - i + 1, never below a smaller one, at most 1.

    >>> [round(q, 3) for q in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    out = np.empty_like(values)
    out[order] = np.minimum(
        np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0
    )
    return [float(q) for q in out]


@dataclass(frozen=True)
class Ranking:
    """Methods ranked within each task (1 is best, ties share), and whether their mean ranks differ.

    `chi_square` and `p` are Friedman's, `f` and `f_p` Iman and Davenport's, `critical_difference` Nemenyi's for
    ALPHA. One task has no spread to test against: its p-values are NaN.
    """

    ordered: list[tuple[str, float]]  # methods with their mean ranks, the best first
    tasks: int
    chi_square: float
    p: float
    f: float
    f_p: float
    critical_difference: float

    @property
    def apart(self) -> list[str]:
        """The methods that differ significantly from the best one."""
        return [
            name
            for name, mean in self.ordered
            if mean - self.ordered[0][1] >= self.critical_difference
        ]


def friedman(columns: Mapping[str, Array]) -> Ranking:
    """Friedman's test over the blocks (tasks), corrected for ties, with the numbers of a critical-difference diagram.

        chi = N^2 (k-1) sum_j (R_j - r)^2 / sum_ij (r_ij - r)^2,   r = (k+1)/2,      F = (N-1) chi/(N(k-1) - chi)

    of the ranks r_ij and the mean ranks R_j of k methods over N tasks; F has k-1 and (k-1)(N-1) degrees of freedom.

    >>> ranking = friedman({"a": np.array([1, 1, 2, 1]), "b": np.array([2, 2, 1, 2]), "c": np.full(4, 3)})
    >>> ranking.ordered, ranking.chi_square, round(ranking.p, 4), ranking.f
    ([('a', 1.25), ('b', 1.75), ('c', 3.0)], 6.5, 0.0388, 13.0)
    >>> round(ranking.critical_difference, 3)
    1.657
    """
    from scipy.stats import chi2, rankdata
    from scipy.stats import f as f_law

    matrix = _matrix(columns)
    N, k = matrix.shape if matrix.ndim == 2 else (0, len(columns))
    if k < 2 or not N:
        raise InputError(f"{k} methods on {N} tasks: ranks need at least two methods and one task")
    ranks = rankdata(np.round(matrix, DIGITS), axis=1)
    mean = ranks.mean(axis=0)
    middle = (k + 1) / 2
    spread = float(((ranks - middle) ** 2).sum())
    chi = N * (k - 1) * N * float(((mean - middle) ** 2).sum()) / spread if spread else 0.0
    rest = N * (k - 1) - chi
    F = math.nan if N == 1 else math.inf if rest <= 1e-9 else (N - 1) * chi / rest
    p, f_p = (
        (math.nan, math.nan)
        if N == 1
        else (chi2.sf(chi, k - 1), f_law.sf(F, k - 1, (k - 1) * (N - 1)))
    )
    ordered = [(list(columns)[i], float(mean[i])) for i in np.argsort(mean, kind="stable")]
    return Ranking(ordered, N, chi, float(p), F, float(f_p), critical_difference(k, N))


def critical_difference(methods: int, tasks: int, alpha: float = ALPHA) -> float:
    """Nemenyi: mean ranks of k methods over N tasks differ if they are q sqrt(k(k+1)/6N) apart.

    q is the studentised range of k normals with infinitely many degrees of freedom, over sqrt 2.

    >>> round(critical_difference(4, 14), 2)  # Demsar 2006, section 3.2.4
    1.25
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - alpha, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * tasks))
