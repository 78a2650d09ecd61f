"""Laws of AdaHedge, Squint and fixed share: bounds against an adversary, brute force, any cut into blocks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.adversary import adversary, guesses, one_hot, scores
from support.laws import fitted, law, make_task, seeds

from hedgerow.core.errors import InputError
from hedgerow.mix import (
    RATE_PRIOR,
    RATES,
    SHARE_PRIOR,
    SHARES,
    AdaHedge,
    FixedShare,
    FixedShareLogLoss,
    Hedge,
    LogLoss,
    Squint,
)

ON_MISTAKES = [AdaHedge, Squint, FixedShare]
ALL = [*(kind(way) for kind in ON_MISTAKES for way in ("scores", "vote")), FixedShareLogLoss()]
experts, classes = st.integers(2, 8), st.integers(2, 5)


def played(mixer, losses):
    """The mixer over given losses (T x N) in {0, 1}: expert e says 0 where it is right, else 1. State and weights."""
    losses = np.asarray(losses)
    F = np.eye(2)[losses.astype(int)]
    state = mixer.start(losses.shape[1])
    return state, mixer.run(state, 0, F, np.zeros(len(losses), dtype=int)).weights


# -- guarantees -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ON_MISTAKES)
@given(seeds, experts, classes)
@law(30)
def test_the_weighted_loss_stays_within_the_bound(kind, seed, n, K):
    mixer = kind()
    assert "weighted loss" in mixer.guarantee
    assert not mixer.guarantee.startswith("mistakes")
    for t, state, mixture, _ in adversary(mixer, seed, n, K, 80, guesses):
        assert mixture <= mixer.bound(state, t) + 1e-9


@pytest.mark.parametrize("kind", ON_MISTAKES)
@given(seeds, experts, classes)
@law(30)
def test_the_mistakes_of_a_vote_stay_within_the_bound(kind, seed, n, K):
    mixer = kind("vote")
    assert mixer.guarantee.startswith("mistakes")
    for t, state, _, mistakes in adversary(mixer, seed, n, K, 80, guesses):
        assert mistakes <= mixer.bound(state, t) + 1e-9


@given(seeds, experts, classes)
@law(30)
def test_the_mistakes_of_fixed_share_on_the_log_loss_stay_within_the_bound(seed, n, K):
    mixer = FixedShareLogLoss()
    assert mixer.guarantee.startswith("mistakes")
    for t, state, _, mistakes in adversary(mixer, seed, n, K, 80, scores):
        assert mistakes <= mixer.bound(state, t) + 1e-9


@given(seeds, experts, classes)
@law(30)
def test_adahedge_is_never_worse_than_its_worst_case(seed, n, K):
    """Theorem 8 of de Rooij et al. 2014 for losses in [0, 1], known before the stream but for L_min."""
    mixer, log_n = AdaHedge(), math.log(n)
    for t, state, _, _ in adversary(mixer, seed, n, K, 120, guesses):
        best = state["expert_loss"].min()
        worst = best + 2 * math.sqrt(best * (t - best) / t * log_n) + 16 / 3 * log_n + 2
        assert mixer.bound(state, t) <= worst + 1e-9


@given(seeds, experts, classes)
@law(30)
def test_what_squint_proves_with_never_grows(seed, n, K):
    for _, state, _, _ in adversary(Squint(), seed, n, K, 80, guesses):
        R, V = state["mixer.regret"][:, None], state["mixer.square"][:, None]
        assert (RATE_PRIOR * np.exp(RATES * R - RATES**2 * V)).sum() / n <= 1 + 1e-9


@pytest.mark.parametrize("mixer", [FixedShare(), FixedShareLogLoss()], ids=repr)
@given(seeds, experts, classes)
@law(20)
def test_sharing_creates_no_weight(mixer, seed, n, K):
    for _, state, _, _ in adversary(mixer, seed, n, K, 60, scores):
        assert state["mixer.v"].sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("kind", ON_MISTAKES)
def test_with_a_perfect_expert_the_bound_does_not_grow(kind):
    mixer, rng = kind(), np.random.default_rng(0)
    losses = rng.integers(0, 2, size=(2000, 4)).astype(float)
    losses[:, 2] = 0
    bounds = [mixer.bound(played(mixer, losses[:t])[0], t) for t in (200, 2000)]
    assert bounds[1] <= bounds[0] + 1e-3
    assert bounds[1] < Hedge().bound({"expert_loss": losses.sum(axis=0)}, 2000) / 3


# -- what they are ----------------------------------------------------------------------------------------------


@given(seeds, experts)
@law(20)
def test_adahedge_step_by_step(seed, n):
    """The definition, with exp and log as they stand in the paper."""
    rng = np.random.default_rng(seed)
    losses = (rng.random((60, n)) < rng.random(n)).astype(float)
    state, weights = played(AdaHedge(), losses)
    L, gap = np.zeros(n), 0.0
    for t, loss in enumerate(losses):
        if gap == 0:
            leads = L.min() == L
            p = leads / leads.sum()
            mix = (L + loss).min() - L.min()
        else:
            eta = math.log(n) / gap
            p = np.exp(-eta * (L - L.min()))
            p /= p.sum()
            mix = -math.log(p @ np.exp(-eta * loss)) / eta
        np.testing.assert_allclose(weights[t], p, atol=1e-9)
        gap += max(0.0, p @ loss - mix)
        L += loss
    assert state["mixer.gap"][0] == pytest.approx(gap, abs=1e-9)


@pytest.mark.parametrize("mixer", [FixedShare(), FixedShareLogLoss()], ids=repr)
@given(seeds)
@law(4)
def test_fixed_share_is_the_mixture_over_all_sequences_of_experts(mixer, seed):
    """Sums and minima over N^T sequences, one by one, against the recursion."""
    n, T, K = 3, 5, 3
    F, y = np.random.default_rng(seed).normal(scale=2, size=(T, n, K)), np.zeros(T, dtype=int)
    state = mixer.start(n)
    out = mixer.run(state, 0, F, y)
    steps = [t for t in range(T) if np.ptp(out.losses[t]) > 0]
    gains, costs = zip(*(mixer.gains(out.weights[t], out.losses[t]) for t in steps), strict=True)
    total, cheapest = np.zeros_like(state["mixer.v"]), np.inf
    with np.errstate(divide="ignore"):
        for sequence in itertools.product(range(n), repeat=len(steps) + 1):  # the last is who comes next
            prior = mixer.rate_prior[:, None] * SHARE_PRIOR / n
            for a, b in itertools.pairwise(sequence):
                prior = prior * (SHARES / n + (a == b) * (1 - SHARES))
            along = list(enumerate(sequence[:-1]))
            total[sequence[-1]] += prior * np.prod([gains[t][e] for t, e in along], axis=0)[:, None]
            cost = np.sum([costs[t][e] for t, e in along], axis=0)[:, None] - np.log(prior) / mixer.rates[:, None]
            cheapest = min(cheapest, cost.min())
    np.testing.assert_allclose(state["mixer.v"], total, rtol=1e-9)
    assert mixer.best_path(state) == pytest.approx(state["expert_loss"][0] + cheapest)


@given(seeds, st.integers(1, 5), st.integers(2, 6))
@law(15)
def test_the_bound_of_fixed_share_pays_for_each_change_once(seed, parts, n):
    """A good expert in each part: the bound is at most that of this sequence, for every rate and share."""
    rng = np.random.default_rng(seed)
    who = np.repeat(rng.integers(0, n, size=parts), 60)
    losses = (rng.random((len(who), n)) < 0.5).astype(float)
    losses[np.arange(len(who)), who] = rng.random(len(who)) < 0.05
    state, weights = played(FixedShare(), losses)
    steps = losses.max(axis=1) > losses.min(axis=1)
    r = ((weights * losses).sum(axis=1) - losses[np.arange(len(who)), who])[steps]
    path = who[steps]
    changes = np.count_nonzero(np.diff(path))
    stay, change = (1 - SHARES + SHARES / n)[1:], (SHARES / n)[1:]
    prior = np.log(n / (RATE_PRIOR[:, None] * SHARE_PRIOR[1:]))
    prior = prior - changes * np.log(change) - (len(path) - changes) * np.log(stay)
    right = losses[np.arange(len(who)), who].sum() + RATES[:, None] * (r**2).sum() + prior / RATES[:, None]
    assert FixedShare().bound(state, len(who)) <= right.min() + 1e-9
    assert (weights * losses).sum() <= FixedShare().bound(state, len(who)) + 1e-9


# -- what they do -----------------------------------------------------------------------------------------------


def test_fixed_share_follows_the_best_expert_where_the_others_cannot():
    """Right and wrong change places every 300 labels."""
    good = np.repeat(np.arange(10) % 2, 300)
    losses = np.stack([good, 1 - good], axis=1).astype(float)
    lost = {m: (played(m, losses)[1] * losses).sum() for m in (Hedge(0.5), Hedge(), AdaHedge(), Squint(), FixedShare())}
    assert all(loss > 500 for m, loss in lost.items() if not isinstance(m, FixedShare))
    assert lost[FixedShare()] < 200
    assert FixedShare().bound(played(FixedShare(), losses)[0], len(good)) < 400


def test_fixed_share_on_the_log_loss_costs_ln_2_where_nothing_changes_and_little_where_it_does():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=400)
    right, wrong = 2 * np.eye(2)[y], 2 * np.eye(2)[1 - y]
    for change, limit in (
        (400, LogLoss().bound({"expert_loss": np.array([0.127, 2.127]) * 400}, 400) + 1.01),
        (200, 90),
    ):
        first = np.arange(400)[:, None] < change
        F = np.stack([np.where(first, right, wrong), np.where(first, wrong, right)], axis=1)
        mixer = FixedShareLogLoss()
        state = mixer.start(2)
        mixer.run(state, 0, F, y)
        assert mixer.bound(state, 400) < limit


@pytest.mark.parametrize("mixer", ALL, ids=repr)
def test_nothing_underflows_on_a_long_stream(mixer):
    """The first expert is right for 4000 labels, then the second: weights stay shares, and the second is found."""
    good = np.repeat([0, 1], [4000, 6000])
    losses = np.stack([good, 1 - good, np.ones(10000)], axis=1).astype(float)
    state, weights = played(mixer, losses)
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights[4000, 0] > 0.99
    assert weights[-1, 1] > 0.9
    assert all(np.isfinite(array).all() for name, array in state.items() if name != "mixer.path")
    if isinstance(mixer, FixedShareLogLoss):
        return
    lost = (weights * losses).sum()
    assert lost * (1 if mixer.combination == "scores" else 2) <= mixer.bound(state, 10000) + 1e-6


@pytest.mark.parametrize("mixer", ALL, ids=repr)
@given(seeds, st.lists(st.integers(0, 40), max_size=6))
@law(10)
def test_any_cut_into_blocks_gives_the_same_bits(mixer, seed, cuts):
    rng = np.random.default_rng(seed)
    F, y = rng.normal(size=(40, 4, 3)), rng.integers(-1, 4, size=40)  # -1: no label; 3: a class that nobody knows
    whole, parts = mixer.start(4), mixer.start(4)
    out = mixer.run(whole, 0, F, y)
    edges = sorted({0, 40, *cuts})
    weights = [mixer.run(parts, int((y[:a] >= 0).sum()), F[a:b], y[a:b]).weights for a, b in itertools.pairwise(edges)]
    np.testing.assert_array_equal(np.concatenate(weights), out.weights)
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array, err_msg=name)


@pytest.mark.parametrize("mixer", ALL, ids=repr)
def test_a_label_about_which_nobody_differs_moves_no_weight(mixer):
    rng = np.random.default_rng(1)
    state = mixer.start(3)
    mixer.run(state, 0, rng.normal(size=(20, 3, 4)), rng.integers(0, 4, size=20))
    before = {name: array.copy() for name, array in state.items()}
    same = np.repeat(rng.normal(size=(5, 1, 4)), 3, axis=1)
    mixer.run(state, 20, same, np.array([0, 1, 2, 4, -1]))
    for name in state.keys() - {"expert_loss"}:
        np.testing.assert_array_equal(state[name], before[name])
    assert np.ptp(state["expert_loss"] - before["expert_loss"]) < 1e-12
    assert mixer.bound(state, 24) >= mixer.bound(before, 20) + 1 - 1e-12


# -- as part of every method ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pa", "homotl-1", "homotl-2", "homotlms", "oddm-fixed", "oddm"])
@pytest.mark.parametrize(("mixer", "combine"), [("adahedge", "vote"), ("squint", None), ("fixed-share", "simplex")])
def test_every_method_can_use_them_and_keeps_the_guarantee(method, mixer, combine):
    task = make_task(4, missing=0.2, new_classes=1)
    clf = fitted(task, method, mixer=mixer, combine=combine)
    clf.predict_then_learn(task.X, task.y)
    suffered = clf.mistakes_ if clf.guarantee_.startswith("mistakes") else clf.hedge_loss_
    assert suffered <= clf.bound_ + 1e-9
    assert clf.weights_.array.sum() == pytest.approx(1)


@pytest.mark.parametrize("mixer", ["adahedge", "squint", "fixed-share"])
@pytest.mark.parametrize("combine", ["scores", "vote"])
def test_they_come_back_from_a_file_and_go_on(mixer, combine, tmp_path):
    task = make_task(5)
    clf = fitted(task, "oddm", mixer=mixer, combine=combine).partial_fit(task.X[:30], task.y[:30])
    clf.save(tmp_path / "model.safetensors")
    loaded = type(clf).load(tmp_path / "model.safetensors")
    assert loaded.learner_.plan == clf.learner_.plan
    for one in (clf, loaded):
        one.partial_fit(task.X[30:], task.y[30:])
    np.testing.assert_array_equal(loaded.weights_, clf.weights_)
    assert loaded.bound_ == clf.bound_


@pytest.mark.parametrize("kind", ON_MISTAKES)
def test_another_combination_is_refused(kind):
    with pytest.raises(InputError, match="combine"):
        kind("loudest")


def test_a_tied_vote_goes_to_the_lowest_class():
    for kind in ON_MISTAKES:
        mixer = kind("vote")
        assert mixer.combine(mixer.start(4), 0, one_hot([1, 0, 1, 0], 2))[0].argmax() == 0
