"""The compiled mixture against its NumPy twin: the formulas of `hedgerow.ridge.mixture`, written down once more."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from laws import law, seeds

from hedgerow.ridge import mixture
from hedgerow.ridge.kernels import LEAST

TEMPERATURES = 2.0 ** np.arange(1, mixture.TEMPERATURES + 1)


def log_softmax(F):
    top = F - F.max(axis=-1, keepdims=True)
    return top - np.log(np.exp(top).sum(axis=-1, keepdims=True))


def centred(F):
    return F - F.mean(axis=-1, keepdims=True)


def posterior(log_prior, loss):
    w = np.exp(log_prior - loss - (log_prior - loss).max())
    return w / w.sum()


def experts(F, log_pi):
    """log q of every expert: heads x temperatures, the same with the class frequencies, the frequencies."""
    G = (F[:, None] * TEMPERATURES[:, None]).reshape(-1, F.shape[1])
    return np.vstack([log_softmax(G), log_softmax(G + log_pi), log_pi])


def newton(a, H, X, p, y, keep):
    covariance = np.diag(p) - np.outer(p, p)
    H[:] = keep * H + (1 - keep) * mixture.FLOOR * np.eye(len(H)) + X @ covariance @ X.T
    a -= np.linalg.solve(H, X @ (p - np.eye(len(p))[y]))


def twin(state, F, y, known):
    """One row, in NumPy."""
    s = {name[4:]: array for name, array in state.items()}
    F = F[:, :known]
    log_pi = np.log(s["counts"] / s["counts"].sum())[:known]
    log_p = experts(F, log_pi)
    w = posterior(s["log_w"], s["loss"])
    log_q = np.log(w @ np.exp(log_p) + LEAST)
    X = np.vstack([F, centred(log_q), centred(log_pi)])
    log_f = np.vstack([log_softmax(log_q), log_pi, log_softmax(s["a"] @ X)])
    tracked = s["members"] @ np.exp(log_f)
    lead = posterior(np.zeros(2), s["pair"])
    shipped = lead[0] * np.exp(log_f[0]) + lead[1] * tracked
    if y >= known:
        s["loss"] -= np.log(LEAST)
        s["pair"] -= np.log(LEAST)
    elif y >= 0:
        s["loss"] -= log_p[:, y]
        s["pair"] -= [log_f[0, y], np.log(tracked[y])]
        believed = s["members"] * np.exp(log_f[:, y])
        share = mixture.SHARE / (s["counts"].sum() - len(s["counts"]) + 2)
        s["members"][:] = (1 - share) * believed / believed.sum() + share * mixture.MEMBERS
        for a, H, keep, f in zip(s["a"], s["H"], mixture.KEEP, log_f[2:], strict=True):
            newton(a, H, X, np.exp(f), y, keep)
    if y >= 0:
        s["counts"][y] += 1
    heads = w[:-1].reshape(2, len(F), -1).sum(axis=(0, 2))
    return shipped, np.append(heads, w[-1])


@given(seeds, st.integers(1, 4), st.integers(2, 6), st.booleans())
@law(25)
def test_the_compiled_mixture_is_its_twin(seed, heads, K, new_class):
    rng = np.random.default_rng(seed)
    known = K - 1 if new_class and K > 2 else K
    F = centred(rng.normal(scale=rng.choice([0.1, 1.0]), size=(12, heads, K)))
    y = rng.integers(-1, K, size=12)
    compiled, plain = mixture.initial(heads, K), mixture.initial(heads, K)
    mixed = mixture.run(compiled, F, y, known)
    expected = [twin(plain, f, label, known) for f, label in zip(F, y, strict=True)]
    np.testing.assert_allclose(mixed.probabilities, [p for p, _ in expected], atol=1e-9)
    np.testing.assert_allclose(mixed.weights, [w for _, w in expected], atol=1e-9)
    for name, array in plain.items():
        lower = np.tril(np.ones(array.shape[-2:], bool)) if name == "mix.H" else np.ones(array.shape, bool)
        np.testing.assert_allclose((compiled[name] * lower), array * lower, rtol=1e-7, atol=1e-7, err_msg=name)


@given(seeds, st.integers(1, 11))
@law(15)
def test_any_cut_into_blocks_gives_the_same_bits(seed, cut):
    rng = np.random.default_rng(seed)
    F, y = rng.normal(size=(12, 3, 4)), rng.integers(-1, 4, size=12)
    whole, parts = mixture.initial(3, 4), mixture.initial(3, 4)
    together = mixture.run(whole, F, y).probabilities
    apart = [mixture.run(parts, F[rows], y[rows]).probabilities for rows in (slice(cut), slice(cut, None))]
    np.testing.assert_array_equal(together, np.concatenate(apart))
    for name, array in whole.items():
        np.testing.assert_array_equal(array, parts[name])


def test_a_stack_that_forgets_follows_a_change():
    """Two heads; the one that is right changes. The tracker must come to believe the stack that forgot."""
    rng = np.random.default_rng(0)
    state, late = mixture.initial(2, 3), []
    for t in range(400):
        y = int(rng.integers(3))
        right, wrong = 0.2 * np.eye(3)[y], 0.2 * np.eye(3)[(y + 1) % 3]
        F = centred(np.array([right, wrong] if t < 200 else [wrong, right]))
        late.append(mixture.run(state, F[None], np.array([y])).probabilities.argmax() != y)
    assert np.mean(late[:200]) < 0.1
    assert np.mean(late[300:]) < 0.1
