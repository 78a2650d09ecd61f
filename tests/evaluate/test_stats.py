"""The tests against published tables, against enumeration, and at their edges."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from hedgerow.core.errors import InputError
from hedgerow.evaluate.stats import (
    Rates,
    against,
    chi_square,
    critical_difference,
    friedman,
    holm,
    iman_davenport,
    nemenyi_q,
    wilcoxon,
)

# Demsar, JMLR 7 (2006), table 5a: critical values of the two-tailed Nemenyi test for 2 to 10 classifiers
DEMSAR = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}


def two(*pairs: tuple[float, float]) -> Rates:
    return Rates(("a", "b"), np.array(pairs, dtype=float))


@pytest.mark.parametrize("alpha", DEMSAR)
def test_the_critical_values_are_the_published_ones(alpha):
    ours = [nemenyi_q(k, alpha) for k in range(2, 11)]
    np.testing.assert_allclose(ours, DEMSAR[alpha], atol=1.1e-3)  # some of the printed ones are cut, not rounded


def test_the_worked_example_of_demsar():
    """Section 3.2.4: four variants of C4.5 on 14 data sets, from the mean ranks printed there."""
    chi = chi_square(np.array([3.143, 2.000, 2.893, 1.964]), 14)
    assert chi == pytest.approx(9.28, abs=0.005)
    assert iman_davenport(chi, 14, 4) == pytest.approx(3.69, abs=0.005)
    assert critical_difference(4, 14, 0.05) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)


def test_a_friedman_example_by_hand():
    """Ranks (1 2 3 4), (1 3 2 4), (2 1 3 4), (1 2 4 3), (1 2.5 2.5 4): sums 6 10.5 14.5 19, one pair of ties.

    sum R_j^2/N^2 - k(k+1)^2/4 = 717.5/25 - 25 = 3.7; times 12*5/20 = 3 is 11.1; ties (8 - 2)/(5*60) = .02;
    11.1/.98 = 11.3265; F = 4*11.3265/(15 - 11.3265) = 12.3333.
    """
    X = np.array([[1, 2, 3, 4], [1, 3, 2, 4], [2, 1, 3, 4], [1, 2, 4, 3], [1, 2, 2, 4]]) / 10
    found = friedman(Rates(("a", "b", "c", "d"), X))
    assert found.mean_ranks.tolist() == [1.2, 2.1, 2.9, 3.8]
    assert found.chi_square == pytest.approx(11.1 / 0.98)
    assert found.f == pytest.approx(37 / 3)
    assert found.p == pytest.approx(reference.chi2.sf(11.1 / 0.98, 3))
    assert found.f_p == pytest.approx(reference.f.sf(37 / 3, 3, 12))


@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(2, 9))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_friedman_is_scipys(seed, k, N):
    X = np.random.default_rng(seed).integers(0, 6, size=(N, k)).astype(float)
    X[0] = np.arange(k)  # not everything tied
    found = friedman(Rates(tuple("abcdef"[:k]), X))
    expected = reference.friedmanchisquare(*X.T)
    assert found.chi_square == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.mean_ranks.sum() == pytest.approx(k * (k + 1) / 2)


def enumerated(d: np.ndarray) -> float:
    """P(min(R+, R-) as small or smaller) over all 2^n signs."""
    d = d[d != 0]
    ranks = reference.rankdata(np.abs(d))
    seen = min(ranks[d > 0].sum(), ranks[d < 0].sum())
    sums = [ranks[np.array(signs)].sum() for signs in itertools.product([True, False], repeat=len(d))]
    return float(np.mean([min(s, ranks.sum() - s) <= seen for s in sums]))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=10).filter(any))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_wilcoxon_with_ties_and_zeros_is_what_enumeration_gives(differences):
    d = np.array(differences, dtype=float)
    found = wilcoxon(Rates(("a", "b"), np.column_stack([d, np.zeros_like(d)])), "a", "b")
    assert found.p == pytest.approx(enumerated(d))
    assert found.blocks == np.count_nonzero(d)
    assert found.difference == pytest.approx(d.mean())


def test_wilcoxon_without_ties_is_scipys_exact_one(rng):
    for n in (3, 8, 20, 50):
        d = rng.normal(0.3, 1, size=n)
        expected = reference.wilcoxon(d, method="exact")
        found = wilcoxon(Rates(("a", "b"), np.column_stack([d, np.zeros(n)])), "a", "b")
        assert (found.statistic, found.p) == (expected.statistic, pytest.approx(expected.pvalue))


def test_wilcoxon_of_many_pairs_goes_over_into_the_normal_law(rng):
    d = rng.normal(0.1, 1, size=400)
    found = wilcoxon(Rates(("a", "b"), np.column_stack([d, np.zeros(400)])), "a", "b")
    assert found.p == pytest.approx(reference.wilcoxon(d, method="asymptotic").pvalue, rel=1e-6)


def test_equal_differences_are_ties_whatever_their_rounding():
    """0.3 - 0.2 and 0.2 - 0.1 differ in the last bit; as counts of mistakes they are the same."""
    assert 0.3 - 0.2 != 0.2 - 0.1
    assert wilcoxon(two((0.3, 0.2), (0.1, 0.2)), "a", "b").statistic == 1.5
    ranked = friedman(Rates(("a", "b"), np.array([[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2]])))
    assert ranked.mean_ranks.tolist() == [1.5, 1.5]


def test_where_nothing_differs_nothing_is_found():
    same = Rates(("a", "b", "c"), np.full((20, 3), 0.25))
    assert all(pair.p == pair.adjusted == 1.0 and pair.blocks == 0 for pair in against(same, "a"))
    found = friedman(same)
    assert (found.chi_square, found.p, found.f, found.f_p) == (0.0, 1.0, 0.0, 1.0)
    assert found.cliques() == [("a", "b", "c")]


def test_twenty_orders_all_on_one_side():
    rates = Rates(("a", "b"), np.column_stack([np.arange(20), np.arange(20) + np.arange(1, 21)]))
    assert wilcoxon(rates, "a", "b").p == 2 / 2**20


def test_holm_is_the_worked_rule():
    """Sorted .005 .01 .03 .04 times 4 3 2 1 = .02 .03 .06 .04, made increasing: .02 .03 .06 .06."""
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.7, 0.8]) == [1.0, 1.0]


def test_p_values_are_corrected_over_the_reference_s_own_pairs():
    X = np.arange(8)[:, None] + np.array([0, 10, 20]) + np.arange(8)[:, None] * np.array([0, 1, 2])
    rates = Rates(("a", "b", "c"), X)
    assert [pair.adjusted for pair in against(rates, "a")] == [2 * 2 / 2**8] * 2
    assert [(pair.first, pair.second) for pair in against(rates, "b")] == [("b", "a"), ("b", "c")]
    with pytest.raises(InputError, match="unknown method 'z'"):
        against(rates, "z")


def test_tasks_that_all_agree():
    found = friedman(Rates(("a", "b", "c"), np.tile([1.0, 2.0, 3.0], (9, 1))))
    assert (found.chi_square, found.f, found.f_p) == (18.0, math.inf, 0.0)
    assert found.ordered == [("a", 1.0), ("b", 2.0), ("c", 3.0)]
    assert found.cliques() == [("a", "b"), ("b", "c")]


def test_two_methods_are_enough_and_one_is_not():
    found = friedman(two((1, 2), (1, 2), (2, 1), (1, 2)))
    assert found.chi_square == 1.0  # (3 - 1)^2/4: the sign test
    with pytest.raises(InputError, match="at least two methods"):
        friedman(Rates(("a",), np.ones((3, 1))))
    with pytest.raises(InputError, match="at least two"):
        nemenyi_q(1)


def test_one_task_ranks_and_tests_nothing():
    found = friedman(Rates(("a", "b", "c"), np.array([[3.0, 1.0, 2.0]])))
    assert found.mean_ranks.tolist() == [3, 1, 2]
    assert math.isnan(found.p)
    assert math.isnan(found.f_p)
    assert found.cliques() == [("b", "c", "a")]


def test_cliques_are_the_largest_groups_only():
    """Mean ranks 1.2 2.1 2.9 3.8, made to lie closer and farther than the critical difference."""
    X = np.array([[1, 2, 3, 4], [1, 3, 2, 4], [2, 1, 3, 4], [1, 2, 4, 3], [1, 2, 2, 4]])
    found = friedman(Rates(("a", "b", "c", "d"), X))
    assert found.critical_difference == pytest.approx(2.569 * math.sqrt(20 / 30), abs=1e-3)
    assert found.cliques() == [("a", "b", "c"), ("b", "c", "d")]


@pytest.mark.parametrize(
    ("names", "matrix", "message"),
    [
        (("a", "b"), [[1.0]], "blocks x methods"),
        (("a", "a"), [[1.0, 2.0]], "stands twice"),
        (("a", "b"), [[1.0, 2.0], [1.0, math.nan]], "b has no number in block 1"),
    ],
)
def test_rates_that_are_none_are_refused(names, matrix, message):
    with pytest.raises(InputError, match=message):
        Rates(names, np.array(matrix))
