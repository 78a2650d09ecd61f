"""The regressor's bound, step by step as docs/theory.md proves it, on hostile sequences by the compiled mixture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law

from hedgerow.kernels import regression as kernel

T, NEARLY = 200, 1 + 1e-9
HEADS = ("random", "constant", "one is right", "far outside", "two camps")
LABELS = ("farthest", "flips", "spikes", "grows", "walk", "best head", "random")


def memory(H: int, low: float, high: float) -> kernel.Memory:
    """What the mixture reads and writes, before any label; the rest is empty."""
    sizes = {"R": H, "S": H, "L": H, "last_R": 4, "last_S": 4, "loss": 2 + H, "running": 4, "miss": 2}
    arrays = {name: np.zeros(sizes.get(name, 1)) for name in kernel.Memory._fields}
    arrays |= {"P": (np.eye(1),), "M": (np.zeros((1, 1)),), "range": np.array([low, high])}
    arrays |= {"stack_P": np.array([np.eye(H), 0.1 * np.eye(H)]), "stack_a": np.zeros((2, H))}
    return kernel.Memory(**arrays)


def heads(kind: str, rng: np.random.Generator, H: int, t: int, low: float, high: float, z: float) -> np.ndarray:
    middle, length = (low + high) / 2, high - low
    if kind == "constant":
        return low + length * np.linspace(0, 1, H)
    if kind == "one is right":
        return np.concatenate([[z], middle + length * rng.normal(size=H - 1)])
    if kind == "far outside":
        return middle + 100 * length * rng.normal(size=H)
    if kind == "two camps":
        return np.where(np.arange(H) % 2 == t // 20 % 2, low, high)
    return rng.uniform(low, high, size=H)


def label(kind: str, rng: np.random.Generator, t: int, low: float, high: float, p: float, f: np.ndarray) -> float:
    middle, length = (low + high) / 2, high - low
    return {
        "farthest": low if p > middle else high,
        "flips": low if t % 2 else high,
        "spikes": middle + length * (10 * rng.normal() if rng.random() < 0.05 else rng.normal() / 4),
        "grows": middle + length * (0.5 + rng.choice([0.001, 0.3, 0.75, 2.0])) * rng.choice([-1, 1]) * (t < 40),
        "walk": middle + length / 10 * rng.normal(),
        "best head": f[0],
        "random": rng.uniform(low, high),
    }[kind]


@law(200)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 12),
    st.sampled_from(HEADS),
    st.sampled_from(LABELS),
    st.floats(1e-3, 1e3),
    st.booleans(),
)
def test_every_step_of_the_proof_and_the_whole(seed, H, of_heads, of_labels, scale, shifted):
    rng = np.random.default_rng(seed)
    state = memory(H, -scale, scale)
    weights, mixed, last, work = np.empty((2, H)), np.empty(4), np.empty(4), np.empty(H)
    clipped, quadratic, errors = np.zeros(4), np.zeros(4), np.zeros(1 + H)  # of members against c; (p - m)^2; against y
    own, outside, first = 0.0, 0.0, 0.0
    z = 0.0
    for t in range(T):
        margin = kernel.MARGIN * (state.range[1] - state.range[0])
        low, high = state.range[0] - margin, state.range[1] + margin
        W = high - low
        first = first or W
        shift = 3 * W * rng.normal() if shifted else 0.0  # anything that is known before the label
        f = np.clip(heads(of_heads, rng, H, t, low, high, z), low, high)
        kernel._mix(state, f, low, high, weights, mixed, last)
        p = float(last @ mixed)
        assert low - 1e-9 * W <= p <= high + 1e-9 * W
        z = label(of_labels, rng, t, low, high, p, f)
        y, c = z + shift, min(max(z, low), high)
        errors += (np.concatenate([[p], f]) + shift - y) ** 2
        own += (p - c) ** 2
        clipped += (mixed - c) ** 2
        quadratic += (p - mixed) ** 2
        outside += 2 * abs(z - c) * W
        kernel._weigh(state, f, mixed, p, z, low, high, 1.0, work)
        state.running[0] += 1
        state.range[:] = min(state.range[0], z), max(state.range[1], z)
        now = (1 + 2 * kernel.MARGIN) * (state.range[1] - state.range[0])
        A = 4 * np.log2(1 + (t + 1) * (now / first) ** 4)
        slack = 1e-7 * now**2
        # step 1: exponential weights
        assert clipped[1] <= state.L.min() + 2 * W**2 * np.log(H) + slack
        # step 2: ML-Poly over the four members
        assert (state.last_R <= np.sqrt(A * (4 * now**4 + state.last_S)) * NEARLY).all()
        np.testing.assert_allclose(own - clipped, state.last_R - quadratic, rtol=1e-6, atol=1e-6 * (t + 1) * now**2)
        assert (own - clipped <= now**2 * (A + 1) + slack).all()
        # step 3: labels outside of the range
        assert outside <= now**2 / 3 + slack
        # the whole
        assert errors[0] <= errors[1:].min() + now**2 * (2 * np.log(H) + A + 4 / 3) + slack
    assert state.loss[0] == pytest.approx(errors[0], rel=1e-6, abs=1e-6 * scale**2)
    assert state.loss[2:] == pytest.approx(errors[1:], rel=1e-6, abs=1e-6 * scale**2)
    assert state.loss[1] == pytest.approx(first)


def test_the_price_of_labels_outside_of_the_range_is_nearly_reached():
    """A range that doubles with every label: a third of the squared length, as the proof says."""
    W, paid = 1.0, 0.0
    for _ in range(40):
        paid += 2 * W * (2 * W - 1.25 * W) / 1.5
        W *= 2
    assert paid == pytest.approx(W**2 / 3, rel=1e-6)
