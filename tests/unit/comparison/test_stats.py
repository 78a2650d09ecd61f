"""The tests against published tables, against enumeration, and at their edges."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from hedgerow.comparison.stats import against, critical_difference, friedman, wilcoxon
from hedgerow.core.errors import InputError
from reproduction.figures import cliques

# Demsar, JMLR 7 (2006), table 5a: critical values of the two-tailed Nemenyi test for 2 to 10 classifiers
DEMSAR = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}


# table 6 there: the ranks of four variants of C4.5 on 14 data sets
C45 = np.array([
    [4, 3, 2, 1], [1, 2, 3, 4], [4, 1, 2, 3], [4, 1, 3, 2], [4, 2, 3, 1], [1, 2.5, 4, 2.5], [3, 2, 4, 1],
    [2.5, 2.5, 4, 1], [4, 3, 2, 1], [2.5, 2.5, 2.5, 2.5], [4, 2.5, 1, 2.5], [3, 2, 4, 1], [4, 1, 2, 3], [3, 1, 4, 2],
])  # fmt: skip
# ranks 1.2 2.1 2.9 3.8 on average, one pair of ties
FIVE_TASKS = np.array([[1, 2, 3, 4], [1, 3, 2, 4], [2, 1, 3, 4], [1, 2, 4, 3], [1, 2, 2, 4]]) / 10


def columns(matrix) -> dict[str, np.ndarray]:
    """Blocks x methods as the rates of methods a, b, .."""
    return dict(zip("abcdef", np.asarray(matrix, dtype=float).T, strict=False))


@pytest.mark.parametrize("alpha", DEMSAR)
def test_the_critical_values_are_the_published_ones(alpha):
    ours = [critical_difference(k, 6, alpha) / math.sqrt(k * (k + 1) / 36) for k in range(2, 11)]
    np.testing.assert_allclose(
        ours, DEMSAR[alpha], atol=1.1e-3
    )  # some of the printed ones are cut, not rounded


def test_the_worked_example_of_demsar():
    """Section 3.2.4. Printed without a correction for ties: one row of four and three pairs, (60 + 3*6)/(14*60)."""
    ranking = friedman(columns(C45))
    assert [round(mean, 3) for _, mean in sorted(ranking.ordered)] == [3.143, 2.0, 2.893, 1.964]
    ties = 78 / 840
    assert ranking.chi_square * (1 - ties) == pytest.approx(9.28, abs=0.005)
    corrected = 9.28 / (1 - ties)
    assert ranking.f == pytest.approx(13 * corrected / (42 - corrected), abs=0.005)
    assert (
        ranking.critical_difference
        == critical_difference(4, 14, 0.05)
        == pytest.approx(1.25, abs=0.005)
    )
    assert critical_difference(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)


@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(2, 9))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_friedman_is_scipys(seed, k, N):
    X = np.random.default_rng(seed).integers(0, 6, size=(N, k)).astype(float)
    X[0] = np.arange(k)  # not everything tied
    ranking = friedman(columns(X))
    expected = reference.friedmanchisquare(*X.T)
    assert ranking.chi_square == pytest.approx(expected.statistic)
    assert ranking.p == pytest.approx(expected.pvalue)
    assert sum(mean for _, mean in ranking.ordered) == pytest.approx(k * (k + 1) / 2)


def enumerated(d: np.ndarray) -> float:
    """P(min(R+, R-) as small or smaller) over all 2^n signs."""
    d = d[d != 0]
    ranks = reference.rankdata(np.abs(d))
    seen = min(ranks[d > 0].sum(), ranks[d < 0].sum())
    sums = [
        ranks[np.array(signs)].sum() for signs in itertools.product([True, False], repeat=len(d))
    ]
    return float(np.mean([min(s, ranks.sum() - s) <= seen for s in sums]))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=10).filter(any))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_wilcoxon_with_ties_and_zeros_is_what_enumeration_gives(differences):
    d = np.array(differences, dtype=float)
    test = wilcoxon(d, np.zeros_like(d))
    assert test.p == pytest.approx(enumerated(d))
    assert test.blocks == np.count_nonzero(d)
    assert test.difference == pytest.approx(d.mean())


def test_wilcoxon_without_ties_is_scipys_exact_one(rng):
    for n in (3, 8, 20, 50):
        d = rng.normal(0.3, 1, size=n)
        expected = reference.wilcoxon(d, method="exact")
        test = wilcoxon(d, np.zeros(n))
        assert (test.statistic, test.p) == (expected.statistic, pytest.approx(expected.pvalue))


def test_wilcoxon_of_many_pairs_goes_over_into_the_normal_law(rng):
    d = rng.normal(0.1, 1, size=400)
    assert wilcoxon(d, np.zeros(400)).p == pytest.approx(
        reference.wilcoxon(d, method="asymptotic").pvalue, rel=1e-6
    )


def test_equal_differences_are_ties_whatever_their_rounding():
    """0.3 - 0.2 and 0.2 - 0.1 differ in the last bit; as counts of mistakes they are the same."""
    assert 0.3 - 0.2 != 0.2 - 0.1
    assert wilcoxon(np.array([0.3, 0.1]), np.array([0.2, 0.2])).statistic == 1.5
    assert friedman(columns([[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2]])).ordered == [
        ("a", 1.5),
        ("b", 1.5),
    ]


def test_where_nothing_differs_no_test_sees_a_difference():
    same = columns(np.full((20, 3), 0.25))
    assert all(pair.p == pair.adjusted == 1.0 and pair.blocks == 0 for pair in against(same, "a"))
    ranking = friedman(same)
    assert (ranking.chi_square, ranking.p, ranking.f, ranking.f_p) == (0.0, 1.0, 0.0, 1.0)
    assert cliques(ranking) == [("a", "b", "c")]


def test_p_values_are_corrected_over_the_reference_s_own_pairs():
    X = np.arange(8)[:, None] + np.array([0, 10, 20]) + np.arange(8)[:, None] * np.array([0, 1, 2])
    rates = columns(X)
    assert [pair.adjusted for pair in against(rates, "a")] == [2 * 2 / 2**8] * 2
    assert [(pair.first, pair.second) for pair in against(rates, "b")] == [("b", "a"), ("b", "c")]
    with pytest.raises(InputError, match="unknown method 'z'"):
        against(rates, "z")


def test_tasks_that_all_agree():
    ranking = friedman(columns(np.tile([1.0, 2.0, 3.0], (9, 1))))
    assert (ranking.chi_square, ranking.f, ranking.f_p) == (18.0, math.inf, 0.0)
    assert ranking.ordered == [("a", 1.0), ("b", 2.0), ("c", 3.0)]
    assert cliques(ranking) == [("a", "b"), ("b", "c")]


def test_two_methods_are_enough_and_one_is_not():
    assert (
        friedman(columns([(1, 2), (1, 2), (2, 1), (1, 2)])).chi_square == 1.0
    )  # (3 - 1)^2/4: the sign test
    with pytest.raises(InputError, match="at least two methods"):
        friedman(columns(np.ones((3, 1))))


def test_one_task_ranks_and_tests_nothing():
    ranking = friedman(columns([[3.0, 1.0, 2.0]]))
    assert ranking.ordered == [("b", 1.0), ("c", 2.0), ("a", 3.0)]
    assert math.isnan(ranking.p)
    assert math.isnan(ranking.f_p)
    assert cliques(ranking) == [("b", "c", "a")]


def test_cliques_are_the_largest_groups_only():
    """Mean ranks 1.2 2.1 2.9 3.8: the ends of each group lie closer than the critical difference, 2.1."""
    ranking = friedman(columns(FIVE_TASKS))
    assert ranking.critical_difference == pytest.approx(2.569 * math.sqrt(20 / 30), abs=1e-3)
    assert cliques(ranking) == [("a", "b", "c"), ("b", "c", "d")]


@pytest.mark.parametrize("compare", [friedman, lambda rates: against(rates, "a")])
def test_rates_that_are_none_are_refused(compare):
    with pytest.raises(InputError, match="different length"):
        compare({"a": np.ones(2), "b": np.ones(3)})
    with pytest.raises(InputError, match="b has no number in block 1"):
        compare(columns([[1.0, 2.0], [1.0, math.nan]]))
