"""Are methods different, or only lucky? Paired tests within a task, rank tests over tasks.

| question                         | blocks       | test                                                            |
|----------------------------------|--------------|-----------------------------------------------------------------|
| two methods on one task          | orders       | Wilcoxon's signed ranks (exact, also with ties), Holm's correction |
| all methods over several tasks   | tasks        | Friedman's ranks, Iman and Davenport's F                        |
| which pairs differ over tasks    | tasks        | Nemenyi's critical difference, groups for a diagram             |

Orders of one split share the unlabelled rows, the sources and the instances of the stream: a test over them says
whether two methods differ *on this split*, whatever the order, and nothing about another split or another task. Only
the tests over tasks speak about tasks not run, and a handful of related tasks gives them little power.

References: Wilcoxon 1945; Holm 1979; Friedman 1937; Iman and Davenport 1980; Nemenyi 1963; Demsar, JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown

DIGITS = 12  # differences of rates that agree to this many digits are ties: 7/110 is one number, however it came about
EXACT = 200  # pairs up to which the null distribution is counted out; beyond, the normal one is as good
ALPHA = 0.05


@dataclass(frozen=True)
class Rates:
    """Mistake rates: one row for each block (an order or a task), one column for each method. Smaller is better.

    >>> Rates(("pa", "oddm"), np.array([[0.5, 0.2], [0.4, 0.3]])).column("oddm")
    array([0.2, 0.3])
    """

    names: tuple[str, ...]
    matrix: Array

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.names):
            raise InputError(f"rates of shape {matrix.shape} for {len(self.names)} methods; give blocks x methods")
        if len(set(self.names)) < len(self.names):
            raise InputError(f"a method stands twice in {list(self.names)}; give each one column")
        if not np.isfinite(matrix).all():
            row, column = (int(i[0]) for i in np.nonzero(~np.isfinite(matrix)))
            raise InputError(f"{self.names[column]} has no number in block {row}; leave out the block or the method")
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "matrix", matrix)

    def column(self, name: str) -> Array:
        """The rates of one method."""
        if name not in self.names:
            raise unknown("method", name, self.names)
        return np.asarray(self.matrix[:, self.names.index(name)])


# -- within a task ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two methods on the same blocks. `difference` is the mean of first - second: negative if the first is better.

    `blocks` counts the pairs that differ, `statistic` is min(R+, R-), `p` the two-sided p-value, `adjusted` Holm's
    over the family the pair was tested in.
    """

    first: str
    second: str
    difference: float
    blocks: int
    statistic: float
    p: float
    adjusted: float


def against(rates: Rates, reference: str) -> list[Pair]:
    """The reference against each other method, Holm-corrected over them; the reference stands first in each pair.

    >>> X = np.array([[10, 20, 12], [11, 22, 11], [12, 25, 14], [13, 21, 11], [10, 23, 9], [9, 24, 9.5]])
    >>> [(pair.second, pair.p, pair.adjusted) for pair in against(Rates(("a", "b", "c"), X), "a")]
    [('b', 0.03125, 0.0625), ('c', 0.8125, 0.8125)]
    """
    rates.column(reference)
    return _corrected([wilcoxon(rates, reference, name) for name in rates.names if name != reference])


def wilcoxon(rates: Rates, first: str, second: str) -> Pair:
    """R+ = sum of the ranks of |d| over d > 0, R- over d < 0; P(min(R+, R-) or less) under random signs.

    Zero differences are left out (Wilcoxon's own rule), tied ones share their mean rank. The p-value is exact given the
    ranks, ties included, up to 200 pairs; then it is the normal approximation. Where nothing differs it is 1.

    >>> wilcoxon(Rates(("a", "b"), np.array([[1, 2], [1, 3], [1, 4.0], [5, 5]])), "a", "b")
    Pair(first='a', second='b', difference=-1.5, blocks=3, statistic=0.0, p=0.25, adjusted=0.25)
    """
    from scipy.stats import rankdata

    d = np.round(rates.column(first) - rates.column(second), DIGITS)
    mean = float(d.mean()) if len(d) else 0.0
    d = d[d != 0]
    doubled = np.rint(2 * rankdata(np.abs(d))).astype(int)  # mean ranks are halves: twice them is whole
    lesser = int(min(doubled[d > 0].sum(), doubled[d < 0].sum()))
    p = _signed_rank_p(doubled, lesser) if len(d) else 1.0
    return Pair(first, second, mean, len(d), lesser / 2, p, p)


def _signed_rank_p(doubled: Array, lesser: int) -> float:
    """2 P(R <= lesser), R the sum of the ranks that random signs make positive: counted, or by the normal law."""
    if len(doubled) > EXACT:
        from scipy.stats import norm

        spread = math.sqrt(float((doubled.astype(float) ** 2).sum()) / 4)
        return float(min(1.0, 2 * norm.cdf((lesser - doubled.sum() / 2) / spread)))
    ways = np.zeros(int(doubled.sum()) + 1)  # as shares of all sign patterns, so that nothing overflows
    ways[0] = 1.0
    for rank in doubled:
        shifted = np.zeros_like(ways)
        shifted[rank:] = ways[: len(ways) - rank]
        ways = (ways + shifted) / 2
    return float(min(1.0, 2 * ways[: lesser + 1].sum()))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down: the i-th smallest of m p-values times m - i + 1, never below a smaller one, at most 1.

    >>> [round(q, 3) for q in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(len(values), 0, -1)
    out = np.empty_like(values)
    out[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(q) for q in out]


def _corrected(pairs: list[Pair]) -> list[Pair]:
    return [replace(pair, adjusted=q) for pair, q in zip(pairs, holm([pair.p for pair in pairs]), strict=True)]


# -- over tasks -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranking:
    """Methods ranked within each task (1 is best, ties share), and whether their mean ranks differ.

    `chi_square` and `p` are Friedman's, `f` and `f_p` Iman and Davenport's, `critical_difference` Nemenyi's for
    `alpha`. One task has no spread to test against: its p-values are NaN.
    """

    names: tuple[str, ...]
    mean_ranks: Array
    tasks: int
    chi_square: float
    p: float
    f: float
    f_p: float
    alpha: float
    critical_difference: float

    @property
    def ordered(self) -> list[tuple[str, float]]:
        """Methods with their mean ranks, the best first."""
        order = np.argsort(self.mean_ranks, kind="stable")
        return [(self.names[i], float(self.mean_ranks[i])) for i in order]

    def cliques(self) -> list[tuple[str, ...]]:
        """The largest groups of methods whose mean ranks lie within one critical difference: the bars of a diagram."""
        ordered = self.ordered
        found: list[tuple[int, int]] = []
        for i in range(len(ordered)):
            last = max(j for j in range(i, len(ordered)) if ordered[j][1] - ordered[i][1] < self.critical_difference)
            if last > i and (not found or last > found[-1][1]):
                found.append((i, last))
        return [tuple(name for name, _ in ordered[i : j + 1]) for i, j in found]


def friedman(rates: Rates, alpha: float = ALPHA) -> Ranking:
    """Friedman's test over the rows, corrected for ties, with the numbers of a critical-difference diagram.

    >>> X = np.array([[1, 2, 3], [1, 2, 3], [2, 1, 3], [1, 2, 3.0]])
    >>> found = friedman(Rates(("a", "b", "c"), X))
    >>> found.mean_ranks.tolist(), found.chi_square, round(found.p, 4), found.f
    ([1.25, 1.75, 3.0], 6.5, 0.0388, 13.0)
    >>> round(found.critical_difference, 3), found.cliques()
    (1.657, [('a', 'b'), ('b', 'c')])
    """
    from scipy.stats import chi2, rankdata
    from scipy.stats import f as f_law

    N, k = rates.matrix.shape
    if k < 2 or not N:
        raise InputError(f"{k} methods on {N} tasks: ranks need at least two methods and one task")
    ranks = rankdata(np.round(rates.matrix, DIGITS), axis=1)
    mean = ranks.mean(axis=0)
    counts = [np.unique(row, return_counts=True)[1].astype(float) for row in ranks]
    tied = sum(float((c**3 - c).sum()) for c in counts) / (N * (k**3 - k))
    chi = 0.0 if tied == 1 else chi_square(mean, N) / (1 - tied)
    F = iman_davenport(chi, N, k)
    p, f_p = (
        (math.nan, math.nan) if N == 1 else (float(chi2.sf(chi, k - 1)), float(f_law.sf(F, k - 1, (k - 1) * (N - 1))))
    )
    return Ranking(rates.names, mean, N, chi, p, F, f_p, alpha, critical_difference(k, N, alpha))


def chi_square(mean_ranks: Array, tasks: int) -> float:
    """Friedman's 12N/(k(k+1)) (sum_j R_j^2 - k(k+1)^2/4) of k mean ranks over N tasks, before any correction for ties.

    >>> round(chi_square(np.array([3.143, 2.000, 2.893, 1.964]), 14), 2)  # Demsar 2006, section 3.2.4
    9.28
    """
    k = len(mean_ranks)
    spread = float((np.asarray(mean_ranks) ** 2).sum()) - k * (k + 1) ** 2 / 4
    return 12 * tasks / (k * (k + 1)) * spread


def iman_davenport(chi: float, tasks: int, methods: int) -> float:
    """(N-1) chi/(N(k-1) - chi): F with k-1 and (k-1)(N-1) degrees of freedom; infinite where all tasks agree.

    >>> round(iman_davenport(9.28, 14, 4), 2)  # Demsar 2006, section 3.2.4
    3.69
    """
    if tasks == 1:
        return math.nan
    rest = tasks * (methods - 1) - chi
    return math.inf if rest <= 1e-9 else (tasks - 1) * chi / rest


def critical_difference(methods: int, tasks: int, alpha: float = ALPHA) -> float:
    """Nemenyi: mean ranks of k methods over N tasks differ if they are q sqrt(k(k+1)/6N) apart.

    q is the studentised range of k normals with infinitely many degrees of freedom, over sqrt 2.

    >>> round(critical_difference(4, 14), 2)  # Demsar 2006, section 3.2.4
    1.25
    """
    return nemenyi_q(methods, alpha) * math.sqrt(methods * (methods + 1) / (6 * tasks))


def nemenyi_q(methods: int, alpha: float = ALPHA) -> float:
    """The quantile in Nemenyi's critical difference.

    >>> [round(nemenyi_q(k), 2) for k in (2, 3, 4)]
    [1.96, 2.34, 2.57]
    """
    from scipy.stats import studentized_range

    if methods < 2 or not 0 < alpha < 1:
        raise InputError(f"{methods} methods at level {alpha}: needs at least two, and a level between 0 and 1")
    return float(studentized_range.ppf(1 - alpha, methods, np.inf)) / math.sqrt(2)
