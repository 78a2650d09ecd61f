"""Laws of the mixers: the guarantees hold against an adversary, HomOTL-I is the original, ties are decided one way."""

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
    Hedge,
    LogLoss,
    LossBased,
    Single,
    horizon_beta,
    simplex_projection,
    softmax,
)

betas = st.one_of(st.none(), st.floats(0.02, 0.98))


@given(seeds, betas, st.integers(1, 8), st.integers(2, 5))
@law(40)
def test_hedge_never_suffers_more_than_its_bound(seed, beta, n, K):
    mixer = Hedge(beta)
    for t, state, mixture, _ in adversary(mixer, seed, n, K, 60, guesses):
        best = state["expert_loss"].min()
        log_n = math.log(n)
        if beta is None:
            bound = best + 1.25 * math.sqrt(t * log_n) + log_n
        else:
            bound = (best * math.log(1 / beta) + log_n) / (1 - beta)
        assert mixer.bound(state, t) == pytest.approx(bound)
        assert mixture <= bound + 1e-9


@given(seeds, betas, st.integers(1, 8), st.integers(2, 5))
@law(40)
def test_a_vote_makes_no_more_mistakes_than_its_bound(seed, beta, n, K):
    mixer = Hedge(beta, "vote")
    for t, state, _, mistakes in adversary(mixer, seed, n, K, 60, guesses):
        assert mistakes <= mixer.bound(state, t) + 1e-9


def test_the_vote_bound_is_not_vacuous():
    """Two experts that disagree, the label always against the vote: the bound is reached within a few mistakes."""
    mixer = Hedge(0.5, "vote")
    mistakes = 0
    state = mixer.start(2)
    for t in range(40):
        F = np.eye(2)[[0, 1]][None]
        mixer.run(state, t, F, np.array([1 - int(mixer.combine(state, t, F)[0].argmax())]))
        mistakes += 1
    assert mistakes <= mixer.bound(state, 40) < 1.6 * mistakes


@pytest.mark.parametrize("mixer", [LossBased(), LossBased(loss="softmax"), LogLoss()], ids=repr)
@given(seeds, st.integers(1, 8), st.integers(2, 5))
@law(40)
def test_the_mistakes_of_averaged_probabilities_stay_within_the_bound(mixer, seed, n, K):
    for t, state, _, mistakes in adversary(mixer, seed, n, K, 60, scores):
        best = state["expert_loss"].min()
        log_n = math.log(n)
        bound = (best + log_n) / math.log(2) if isinstance(mixer, LogLoss) else 4 * best + 8 * log_n
        assert mixer.bound(state, t) == pytest.approx(bound)
        assert mistakes <= bound + 1e-9


def test_no_guarantee_where_none_is_known():
    for mixer in (LossBased(loss="margin"), LossBased(eta=0.7), LossBased(combination="scores")):
        assert mixer.bound(mixer.start(3), 10) == math.inf
        assert "none" in mixer.guarantee
    assert "mistakes" not in Hedge(0.5).guarantee.split(",")[0]


def test_summed_scores_can_be_forced_to_err_with_a_perfect_expert_present():
    """Why `bound_` speaks of the weighted loss: one loud expert outweighs a perfect one log(R)/log(1/beta) times."""
    mixer = Hedge(0.5)
    mistakes = 0
    R = 1e6
    beta = 0.5
    state = mixer.start(2)
    for t in range(60):
        F = np.array([[[R, 0.0], [0.0, 1.0]]])
        out = mixer.run(state, t, F, np.array([1]))
        mistakes += int(out.scores[0].argmax() != 1)
    assert mistakes == math.ceil(math.log(R) / math.log(1 / beta))
    assert mistakes > mixer.bound(state, 60)


@given(seeds, st.floats(0.1, 5))
@law(15)
def test_two_classes_are_the_original_homotl_1_step_by_step(seed, C):
    task = make_task(seed, K=2, stream=60)
    clf = fitted(task, "homotl-1", preprocess=(), C=C)
    W = clf.learner_.W
    source = W[0, 1] - W[0, 0]
    target = np.zeros(W.shape[2])
    y = np.array([1 if label == "c1" else -1 for label in task.y])
    trace = clf.learner_.run(task.X, (y + 1) // 2)

    def squash(v):
        return min(max((v + 1) / 2, 0.0), 1.0)

    a = np.array([0.5, 0.5])
    for t, (x, sign) in enumerate(zip(task.X, y, strict=True)):
        p = np.array([squash(source @ x), squash(target @ x)])
        np.testing.assert_allclose(trace.weights[t], a, atol=1e-12)
        assert trace.scores[t, 1] == pytest.approx(a @ p, abs=1e-10)
        assert trace.predictions[t] == int(a @ p - 0.5 > 0)
        a = a * np.exp(-0.5 * (p - squash(sign)) ** 2)
        a /= a.sum()
        loss = max(0.0, 1 - sign * (target @ x))
        target = target + min(2 * C, loss / (x @ x)) * sign * x
    np.testing.assert_allclose(W[1, 1] - W[1, 0], target, atol=1e-9)


@given(seeds, st.floats(0.1, 0.95))
@law(10)
def test_two_classes_with_a_vote_are_the_original_homotl_2(seed, beta):
    task = make_task(seed, K=2, stream=60)
    clf = fitted(task, "homotl-2", preprocess=(), beta=beta, combine="vote")
    W = clf.learner_.W
    source = W[0, 1] - W[0, 0]
    target = np.zeros(W.shape[2])
    y = np.array([1 if label == "c1" else -1 for label in task.y])
    trace = clf.learner_.run(task.X, (y + 1) // 2)
    theta = np.ones(2)
    for t, (x, sign) in enumerate(zip(task.X, y, strict=True)):
        own = np.array([1 if w @ x > 0 else -1 for w in (source, target)])
        p = theta / theta.sum()
        np.testing.assert_allclose(trace.weights[t], p, atol=1e-12)
        if abs(p @ own) > 1e-12:
            assert 2 * trace.predictions[t] - 1 == np.sign(p @ own)
        theta = theta * np.where(own == sign, 1.0, beta)
        target = target + min(10.0, max(0.0, 1 - sign * (target @ x)) / (x @ x)) * sign * x


def nearest_on_the_simplex(f):
    """By bisection on theta in sum max(f - theta, 0) = 1."""
    low = f.max() - 1
    high = f.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(f - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(f - (low + high) / 2, 0)


@given(seeds, st.integers(1, 7), st.sampled_from([1e-3, 1.0, 100.0]))
@law(40)
def test_the_simplex_projection_is_the_nearest_point(seed, K, scale):
    rng = np.random.default_rng(seed)
    F = rng.normal(scale=scale, size=(2, 3, K))
    Q = simplex_projection(F)
    for f, q in zip(F.reshape(-1, K), Q.reshape(-1, K), strict=True):
        np.testing.assert_allclose(q, nearest_on_the_simplex(f), atol=1e-9)
        other = rng.dirichlet(np.ones(K))
        assert ((f - q) ** 2).sum() <= ((f - other) ** 2).sum() + 1e-9


def test_the_simplex_projection_with_ties_and_one_class():
    np.testing.assert_allclose(simplex_projection(np.zeros(4)), np.full(4, 0.25))
    np.testing.assert_allclose(simplex_projection(np.array([1.0, 1.0, -5.0])), [0.5, 0.5, 0])
    assert simplex_projection(np.array([-7.0])).tolist() == [1.0]
    assert softmax(np.array([1e4, 0.0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("n", [2, 4, 6, 8, 10, 16])
def test_a_tied_vote_goes_to_the_lowest_class_alone_and_in_a_block(n):
    mixer = Hedge(0.7, "vote")
    rng = np.random.default_rng(n)
    for _ in range(20):
        votes = rng.permutation(np.arange(n) % 2)
        F = one_hot(votes, 2)
        assert mixer.combine(mixer.start(n), 0, F)[0].argmax() == 0
        block = mixer.run(mixer.start(n), 0, np.repeat(F, 9, axis=0), np.full(9, -1))
        assert (block.scores.argmax(axis=1) == 0).all()


def test_weights_of_a_long_stream_do_not_underflow():
    weights = Hedge(0.01).weights({"expert_loss": np.array([5000.0, 5001.0, 1e6])}, 10**6)
    np.testing.assert_allclose(weights, [1 / 1.01, 0.01 / 1.01, 0], atol=1e-12)


def test_the_discount_of_a_horizon():
    assert horizon_beta(100, 4) == pytest.approx(10 / (10 + math.sqrt(math.log(4))))
    assert Single().bound({"expert_loss": np.array([3.0])}, 9) == 3.0


@pytest.mark.parametrize("mixer", [Hedge(), Hedge(0.9, "vote"), LossBased(), LogLoss()], ids=repr)
@given(seeds, st.lists(st.integers(0, 40), max_size=6))
@law(10)
def test_any_cut_into_blocks_gives_the_same_bits(mixer, seed, cuts):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(40, 4, 3))  # -1: no label; 3: a class that nobody knows
    y = rng.integers(-1, 4, size=40)
    whole = mixer.start(4)
    parts = mixer.start(4)
    out = mixer.run(whole, 0, F, y)
    edges = sorted({0, 40, *cuts})
    weights = [
        mixer.run(parts, int((y[:a] >= 0).sum()), F[a:b], y[a:b]).weights
        for a, b in itertools.pairwise(edges)
    ]
    np.testing.assert_array_equal(np.concatenate(weights), out.weights)
    np.testing.assert_array_equal(parts["expert_loss"], whole["expert_loss"])


def test_another_combination_is_refused():
    with pytest.raises(InputError, match="combine"):
        Hedge(combination="loudest")
