"""Laws of the passive-aggressive heads."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds
from support.plain_heads import step

from hedgerow.core.constants import RULES
from hedgerow.heads import AROW_RULES, make_head, train

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
        loss = max(0.0, 1 - sign * (w @ z))
        square = z @ z
        tau = {
            "pa": loss / square,
            "pa1": min(2 * C, loss / square),
            "pa2": loss / (square + 1 / (2 * 2 * C)),
        }[rule]
        w = w + tau * sign * z
    np.testing.assert_allclose(W[1] - W[0], w, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", [*sorted(RULES), *AROW_RULES])
@given(seeds, st.integers(1, 5), st.floats(0.05, 5))
@law(15)
def test_the_compiled_loop_is_its_specification(rule, dtype, seed, K, C):
    W, Z, y = block(seed, K=K, missing=True)
    W = W.astype(dtype)
    Z = Z.astype(dtype)
    head = make_head(rule, C)
    memory = head.memory(4, dtype)
    tolerance = 1e-10 if dtype == np.float64 else 1e-3
    for z, label in zip(
        Z, y, strict=True
    ):  # from the same W each time: float32 rounding must not add up
        compiled = W.copy()
        plain = W.copy()
        kept = copy.copy(memory)
        F = head.block(compiled, z[None], np.array([label]), memory=memory)[0]
        f = step(plain, z, int(label), rule, C, kept) if label >= 0 else plain @ z
        if memory is not None:
            np.testing.assert_allclose(memory, kept, atol=tolerance)
        assert F.dtype == compiled.dtype == dtype
        np.testing.assert_allclose(F, f, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(compiled, plain, rtol=tolerance, atol=tolerance)
        W = compiled


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


def test_an_empty_pass():
    empty = np.empty((0, 2))
    assert (
        train(make_head("pa1", 1.0), empty, np.empty(0, dtype=np.int64), 3, "average").tolist()
        == [[0.0] * 2] * 3
    )
    assert make_head("pa").block(np.zeros((3, 2)), empty, np.empty(0, dtype=np.int64)).shape == (
        0,
        3,
    )
