"""Laws of the passive-aggressive heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds

from hedgerow import OnlineTransferClassifier
from hedgerow.core.constants import RULES
from hedgerow.heads import HEADS, PassiveAggressive, StepwiseHead, make_head, step, train

KEEPS_SUM = [rule for rule in RULES if rule.startswith(("pa", "perceptron"))]


def block(seed, B=30, K=3, d=4, missing=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(-1 if missing else 0, K, size=B)
    return rng.normal(size=(K, d)), rng.normal(size=(B, d)), y


@given(seeds, st.integers(2, 5))
@law()
def test_the_margin_is_one_after_an_uncapped_update(seed, K):
    W, Z, y = block(seed, K=K)
    for z, label in zip(Z, y, strict=True):
        f = make_head("pa", 5.0).block(W, z[None], np.array([label]))[0]
        rivals = np.where(np.arange(K) == label, -np.inf, f)
        s = rivals.argmax()
        if f[label] - f[s] < 1:
            after = W @ z
            assert after[label] - after[s] == pytest.approx(1, abs=1e-9)


@given(seeds, st.floats(1e-4, 0.05))
@law()
def test_a_capped_update_has_size_C(seed, C):
    W, Z, y = block(seed)
    for z, label in zip(Z, y, strict=True):
        before = W.copy()
        f = make_head("pa1", C).block(W, z[None], np.array([label]))[0]
        loss = 1 - f[label] + np.delete(f, label).max()
        tau = min(C, max(loss, 0) / (2 * z @ z))
        np.testing.assert_allclose(W[label] - before[label], tau * z, atol=1e-12)


@pytest.mark.parametrize("rule", KEEPS_SUM)
@given(seeds, st.integers(2, 5))
@law(10)
def test_the_sum_over_classes_never_changes(rule, seed, K):
    W, Z, y = block(seed, K=K, missing=True)
    total = W.sum(axis=0)
    make_head(rule, 0.3).block(W, Z, y)
    np.testing.assert_allclose(W.sum(axis=0), total, atol=1e-8 * max(1, np.abs(W).max()))


@pytest.mark.parametrize("rule", ["pa", "pa1", "pa2"])
@given(seeds, st.floats(0.01, 10))
@law()
def test_two_classes_are_binary_pa_on_the_difference_with_twice_the_C(rule, seed, C):
    W, Z, y = block(seed, K=2)
    w = W[1] - W[0]
    make_head(rule, C).block(W, Z, y)
    for z, sign in zip(Z, 2 * y - 1, strict=True):
        loss, square = max(0.0, 1 - sign * (w @ z)), z @ z
        tau = {"pa": loss / square, "pa1": min(2 * C, loss / square), "pa2": loss / (square + 1 / (2 * 2 * C))}[rule]
        w = w + tau * sign * z
    np.testing.assert_allclose(W[1] - W[0], w, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", sorted(RULES))
@given(seeds, st.integers(1, 5), st.floats(0.05, 5))
@law(15)
def test_the_compiled_loop_is_its_specification(rule, dtype, seed, K, C):
    W, Z, y = block(seed, K=K, missing=True)
    W, Z = W.astype(dtype), Z.astype(dtype)
    for z, label in zip(Z, y, strict=True):  # from the same W each time: float32 rounding must not add up
        compiled, plain = W.copy(), W.copy()
        F = make_head(rule, C).block(compiled, z[None], np.array([label]))[0]
        f = step(plain, z, int(label), rule, C) if label >= 0 else plain @ z
        assert F.dtype == compiled.dtype == dtype
        tolerance = 1e-10 if dtype == np.float64 else 1e-3
        np.testing.assert_allclose(F, f, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(compiled, plain, rtol=tolerance, atol=tolerance)
        W = compiled


@pytest.mark.parametrize("rule", sorted(RULES))
@given(seeds)
@law(10)
def test_averaged_is_the_mean_of_the_weights_after_each_row(rule, seed):
    W, Z, y = block(seed, missing=True)
    start, head, weights = W.copy(), make_head(rule, 0.7), []
    mean = head.averaged(W, Z, y)
    for z, label in zip(Z, y, strict=True):
        head.block(start, z[None], np.array([label]))
        weights.append(start.copy())
    np.testing.assert_allclose(mean, np.mean(weights, axis=0), atol=1e-9)
    np.testing.assert_allclose(W, start, atol=1e-12)


def test_ties_go_to_the_lowest_class():
    for label, rival in ((0, 1), (1, 0), (2, 0)):
        W = np.zeros((3, 1))
        make_head("pa", 1.0).block(W, np.ones((1, 1)), np.array([label]))
        assert W[label, 0] == 0.5
        assert W[rival, 0] == -0.5


def test_a_zero_row_and_a_lonely_class_teach_nothing():
    for rule in RULES:
        W = np.zeros((3, 2))
        make_head(rule, 1.0).block(W, np.zeros((2, 2)), np.array([0, 1]))
        assert not W.any()
        step(W, np.zeros(2), 1, rule)
        assert not W.any()
        lonely = np.zeros((1, 2))
        make_head(rule, 1.0).block(lonely, np.ones((2, 2)), np.array([0, 0]))
        step(lonely, np.ones(2), 0, rule)
        assert not lonely.any()


def test_the_perceptron_learns_from_mistakes_only():
    W = np.array([[1.0], [0.0]])
    make_head("perceptron", 1.0).block(W, np.array([[0.1]]), np.array([0]))
    assert W.tolist() == [[1.0], [0.0]]
    make_head("perceptron", 1.0).block(W, np.array([[0.1]]), np.array([1]))
    assert W.tolist() == [[0.9], [0.1]]


def test_read_only_and_fortran_ordered_rows():
    W, Z, y = block(0)
    expected = make_head("pa1", 1.0).block(W.copy(), Z, y)
    frozen = np.asfortranarray(Z)
    frozen.setflags(write=False)
    np.testing.assert_array_equal(make_head("pa1", 1.0).block(W.copy(), frozen, y), expected)


@pytest.mark.parametrize("rule", RULES)
def test_a_head_is_saved_with_any_c(rule):
    """Also where C plays no part."""
    head = PassiveAggressive(rule, C=2.0)
    written = HEADS.to_json(head)
    assert (written["name"], HEADS.from_json(written)) == (rule, head)
    Z, y = np.eye(6, 4), np.arange(6) % 3
    clf = OnlineTransferClassifier("pa", head=head).partial_fit(Z, y)
    assert OnlineTransferClassifier.from_bytes(clf.to_bytes()).learner_.plan.head == head


def test_an_empty_pass():
    empty = np.empty((0, 2))
    assert train(make_head("pa1", 1.0), empty, np.empty(0, dtype=np.int64), 3, "average").tolist() == [[0.0] * 2] * 3
    assert make_head("pa").block(np.zeros((3, 2)), empty, np.empty(0, dtype=np.int64)).shape == (0, 3)


@dataclass(frozen=True)
class Slow(StepwiseHead):
    """The twin as a head of its own."""

    rule: str = "mine"
    C: float = 5.0

    def step(self, W, z, y, f):
        step(W, z, y, "pa2", self.C)


def test_a_stepwise_head_is_as_good_as_a_compiled_one():
    W, Z, y = block(3, missing=True)
    ours, theirs = W.copy(), W.copy()
    np.testing.assert_allclose(
        Slow("slow", 0.5).block(ours, Z, y), make_head("pa2", 0.5).block(theirs, Z, y), atol=1e-10
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    ours, theirs = W.copy(), W.copy()
    np.testing.assert_allclose(
        Slow("slow", 0.5).averaged(ours, Z, y), make_head("pa2", 0.5).averaged(theirs, Z, y), atol=1e-10
    )
