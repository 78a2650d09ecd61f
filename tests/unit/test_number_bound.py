"""The regressor's bound, step by step as docs/theory.md proves it, on hostile sequences by the compiled mixture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law

from hedgerow.kernels import regression as kernel

T = 200
NEARLY = 1 + 1e-9
HEADS = ("random", "constant", "one is right", "far outside", "two camps")
LABELS = ("farthest", "flips", "spikes", "grows", "walk", "best head", "random")


def room(H: int, low: float, high: float) -> tuple[kernel.Targets, kernel.Memory, kernel.Work]:
    """What the mixture reads and writes, before any label; what it does not need is empty."""
    sizes = {"mix": (3, H), "last": (2, 3), "loss": 3 + H, "running": 4}
    arrays = {name: np.zeros(sizes.get(name, 1)) for name in kernel.Memory._fields}
    whole = {name: np.zeros(3, np.int64) for name in ("counts", "covered", "place")}
    square = {"level": np.zeros((1, 5)), "rows": np.zeros((1, 9)), "G": np.zeros(3 + H)}
    memory = kernel.Memory(**arrays | whole | square | {"range": np.array([low, high])})
    one = np.zeros((1, 1))
    stack = np.random.default_rng(H).normal(size=(H, 1))  # whatever it has learned
    P = (one, one, one, np.eye(H))
    ends = np.array([0, 1, 2, 3, 3 + H]), np.arange(5)
    at = np.zeros(21, np.int64)
    targets = kernel.Targets(
        P, (one, one, one, stack), np.ones(3 + H), np.ones(4), *ends, at, 1, one, at
    )
    work = {name: np.empty(3 + H) for name in kernel.Work._fields}
    work |= {"known": np.full(2, -1), "along": np.empty((4, 1)), "mixed": np.empty(3)}
    work |= {"last": np.empty(3), "weights": np.empty(H)}
    return targets, memory, kernel.Work(**work)


def heads(
    kind: str, rng: np.random.Generator, H: int, t: int, low: float, high: float, z: float
) -> np.ndarray:
    middle = (low + high) / 2
    length = high - low
    if kind == "constant":
        return low + length * np.linspace(0, 1, H)
    if kind == "one is right":
        return np.concatenate([[z], middle + length * rng.normal(size=H - 1)])
    if kind == "far outside":
        return middle + 100 * length * rng.normal(size=H)
    if kind == "two camps":
        return np.where(np.arange(H) % 2 == t // 20 % 2, low, high)
    return rng.uniform(low, high, size=H)


def label(
    kind: str, rng: np.random.Generator, t: int, low: float, high: float, p: float, f: np.ndarray
) -> float:
    middle = (low + high) / 2
    length = high - low
    return {
        "farthest": low if p > middle else high,
        "flips": low if t % 2 else high,
        "spikes": middle
        + length * (10 * rng.normal() if rng.random() < 0.05 else rng.normal() / 4),
        "grows": middle
        + length * (0.5 + rng.choice([0.001, 0.3, 0.75, 2.0])) * rng.choice([-1, 1]) * (t < 40),
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
    targets, state, work = room(H, -scale, scale)
    mixed = work.mixed
    clipped = np.zeros(3)  # of members against c; (p - m)^2
    quadratic = np.zeros(3)
    errors = np.zeros(1 + H)
    own = 0.0
    outside = 0.0
    first = 0.0
    z = 0.0
    for t in range(T):
        margin = kernel.MARGIN * (state.range[1] - state.range[0])
        low = state.range[0] - margin
        high = state.range[1] + margin
        W = high - low
        first = first or W
        shift = 3 * W * rng.normal() if shifted else 0.0  # anything that is known before the label
        f = np.clip(heads(of_heads, rng, H, t, low, high, z), low, high)
        kernel._mix(targets, state, f, low, high, work)
        p = float(work.last @ mixed)
        assert low - 1e-9 * W <= p <= high + 1e-9 * W
        z = label(of_labels, rng, t, low, high, p, f)
        y = z + shift
        c = min(max(z, low), high)
        errors += (np.concatenate([[p], f]) + shift - y) ** 2
        own += (p - c) ** 2
        clipped += (mixed - c) ** 2
        quadratic += (p - mixed) ** 2
        outside += 2 * abs(z - c) * W
        learned = kernel._widen(state.range, z)
        kernel._weigh(state, f, mixed, p, z, learned, low, high)
        state.running[0] += 1
        now = (1 + 2 * kernel.MARGIN) * (state.range[1] - state.range[0])
        assert W <= now * NEARLY <= (1 + kernel.GROWTH) * W * NEARLY**2
        prior = kernel.PRIOR_REGRET * (1 + 2 * np.log(now / first))
        A = (np.sqrt(3 * np.log2(1 + (t + 1) * (now / first) ** 4)) + prior) ** 2
        slack = 1e-7 * now**2
        # step 1: exponential weights
        best = state.mix[2].min() * now**2
        assert clipped[1] <= best + 2 * W**2 * np.log(H) + slack
        # step 2: ML-Poly over the three members
        last_R, last_S = state.last[0] * now**2, state.last[1] * now**4
        assert (last_R <= np.sqrt(A * (4 * now**4 + last_S)) * NEARLY).all()
        np.testing.assert_allclose(
            own - clipped, last_R - quadratic, rtol=1e-6, atol=1e-6 * (t + 1) * now**2
        )
        assert (own - clipped <= now**2 * (A + 1) + slack).all()
        # step 3: labels outside of the range
        assert state.loss[2] == pytest.approx(outside, rel=1e-9)
        # the whole
        regret = now**2 * (2 * np.log(H) + A + 1) + outside
        assert errors[0] <= errors[1:].min() + regret + slack
    assert state.loss[0] == pytest.approx(errors[0], rel=1e-6, abs=1e-6 * scale**2)
    assert state.loss[3:] == pytest.approx(errors[1:], rel=1e-6, abs=1e-6 * scale**2)
    assert state.loss[1] == pytest.approx(first)
