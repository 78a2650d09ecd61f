"""Every compiled loop is its NumPy twin, for both precisions, with ties, weights and missing labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds
from support.plain_heads import step

from hedgerow.align import refreshed
from hedgerow.core.constants import RULES
from hedgerow.core.moments import UNSEEN, Moments, gap, gap_weights, or_one
from hedgerow.core.preprocess import unit
from hedgerow.heads import AROW_RULES, make_head
from hedgerow.kernels import EVEN, experts, rows
from hedgerow.learner import Trace
from hedgerow.mix import Hedge

DTYPES = [np.float64, np.float32]


def close(dtype):
    return {"rtol": 1e-9, "atol": 1e-9} if dtype == np.float64 else {"rtol": 2e-3, "atol": 2e-3}


def labels_and_weights(rng, B, K, weighted):
    return rng.integers(-1, K, size=B), rng.exponential(size=B) if weighted else EVEN


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(1, 9), st.integers(1, 3), st.integers(1, 11))
@law(15)
def test_unit_rows(dtype, seed, B, n, d):
    Z = np.random.default_rng(seed).normal(size=(B, n, d)).astype(dtype)
    Z[0, 0] = 0
    out = np.empty_like(Z)
    experts.unit_rows(Z, out)
    np.testing.assert_allclose(out, unit(Z), rtol=1e-5)
    assert not out[0, 0].any()


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(1, 11), st.integers(1, 9))
@law(15)
def test_products_of_a_row(dtype, seed, K, d):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(K, d)).astype(dtype)
    z = rng.normal(size=d).astype(dtype)
    before = np.full(K, 7, dtype=dtype)
    after = np.full(d, 7, dtype=dtype)
    rows.product_row(M, z, before)
    np.testing.assert_allclose(before, M @ z, **close(dtype))
    equal = np.tile(M[:1], (K, 1))
    scores = np.empty(K, dtype=dtype)
    rows.product_row(equal, z, scores)
    assert (scores == scores[0]).all()
    rows.row_product(before, M, after)
    np.testing.assert_allclose(after, before @ M, **close(dtype))
    for Z in (z[None], np.stack([z, z])):
        np.testing.assert_allclose(rows.times(Z, M.T), Z @ M.T, **close(dtype))
        np.testing.assert_allclose(
            rows.times(Z, np.ascontiguousarray(M.T)), Z @ M.T, **close(dtype)
        )


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.floats(0, 3), st.sampled_from(sorted(UNSEEN)), st.floats(0.1, 9))
@law(30)
def test_the_small_refresh(dtype, seed, mu, unseen, kappa):
    """On products of vectors what `refreshed` with `gap` does to A."""
    rng = np.random.default_rng(seed)
    n = 2
    K = 3
    m = 7
    d = 3
    sources = [Moments.of(rng.normal(size=(4, m)), rng.integers(0, K, 4), K) for _ in range(n)]
    target = Moments.of(rng.normal(size=(3, m)), rng.integers(0, K, 3), K)
    A = rng.normal(size=(n, m, d))
    K1 = K + 1
    after = np.stack(
        [refreshed(a, gap(s, target, unseen, kappa), mu) for a, s in zip(A, sources, strict=True)]
    )
    M = np.stack([s.means for s in sources])
    T = np.vstack([target.total, target.class_totals])
    counts = np.stack([s.counts for s in sources])
    classes = rng.integers(0, K, 2)  # of two class sums that T has taken
    S = rng.normal(size=(2, m))
    before = T.copy()
    before[0] -= S.sum(axis=0)
    np.subtract.at(before, 1 + classes, S)
    basis = np.vstack([*M, before, S])
    W = basis[n * K1 :] @ basis.T
    of_target = W[:K1].copy()
    experts.fold(W, classes, of_target)
    np.testing.assert_allclose(
        of_target[:, : (n + 1) * K1], T @ np.vstack([*M, T]).T, rtol=1e-9, atol=1e-12
    )
    MA = (M @ A).astype(dtype)
    TA = (T @ A).astype(dtype)
    share = 1 / or_one(target.counts)
    D = gap_weights(counts, target.counts, unseen, kappa)
    room = np.empty((3, n, K1, K1))
    C = np.empty((n, K1, d))
    experts.gaps(M @ M.transpose(0, 2, 1), of_target, MA, TA, share, D, mu, room, C)
    C[:] = np.linalg.solve(room[2], C)
    np.testing.assert_allclose(MA - room[0] @ C, M @ after, **close(dtype))
    np.testing.assert_allclose(TA - room[1] @ C, T @ after, **close(dtype))
    P = np.zeros((n, K1, d), dtype=dtype)
    Q = np.zeros((K1 + 2, n * d), dtype=dtype)
    experts.move(C, D, share, mu, classes, P, Q)
    parts = (basis[n * K1 :].T @ Q).reshape(m, n, d).transpose(1, 0, 2)
    np.testing.assert_allclose(A + M.transpose(0, 2, 1) @ P + parts, after, **close(dtype))


def test_ties_of_experts_go_to_the_lowest_class():
    head = make_head("pa1")
    Z = np.ones((2, 1, 2))
    one = np.zeros(1, dtype=np.int64)
    for vote in (False, True):
        W, S, space, rule, C, u = head.compiled(np.zeros((1, 3, 2)), 0, one, None)
        learned = (
            np.array([0.0, 0.0, rule, C, 0.0, vote]),
            np.append(np.zeros(3, dtype=np.int64), space),
        )
        F = np.empty((2, 1, 3))
        out = np.empty((2, 4))
        named = experts.step(W, S, u, *learned, F, out, Z, np.full(2, -1), EVEN)
        assert (
            [named] * 2
            == F.argmax(axis=2).ravel().tolist()
            == out[:, 1:].argmax(axis=1).tolist()
            == [0, 0]
        )


@pytest.mark.parametrize("rule", [*RULES, *AROW_RULES])
@given(
    seeds,
    st.sampled_from([None, 0.3, 0.9]),
    st.sampled_from(["scores", "vote"]),
    st.booleans(),
    st.integers(0, 12),
)
@law(20)
def test_the_step_of_experts_is_its_parts(rule, seed, beta, combination, weighted, cut):
    """Heads, Hedge and counters in one loop, whole and in two parts, as each of them does for itself in NumPy."""
    rng = np.random.default_rng(seed)
    B = 12
    n = 2
    d = 4
    K = 3
    N = 4
    head = make_head(rule, 0.7)
    mixer = Hedge(beta, combination)
    Z = rng.normal(size=(B, n, d))
    W = rng.normal(size=(N, K, d))
    y, weight = labels_and_weights(rng, B, K, weighted)
    first = 2
    space = np.array([0, 1, 1, 0])
    memory = None if head.memory(d) is None else np.stack([head.memory(d)] * 2)
    plain = W.copy()
    S = None if memory is None else memory.copy()
    F = np.einsum("bnd,nkd->bnk", Z[:, space], plain)
    state = mixer.start(N)
    for i, e in enumerate(range(first, N)):
        for t in range(B):
            F[t, e] = plain[e] @ Z[t, space[e]]
            if y[t] >= 0:
                C = 0.7 * weight[t] if weighted else 0.7
                step(plain[e], Z[t, space[e]], int(y[t]), rule, C, None if S is None else S[i])
    expected = mixer.run(state, 0, F, y)
    moments = Moments.empty(d, K)
    moments.add(Z[:, 0], y, weight if weighted else None)
    counts = np.zeros(1 + K)
    totals = np.zeros((1 + K, d))
    *heads, _, rule_number, C, u = head.compiled(W, first, space, memory)
    loss = np.array([*np.zeros(N + 1), rule_number, C, beta or 0.0, combination == "vote"])
    tally = np.append(np.zeros(2 + N, dtype=np.int64), space)
    G = F.copy()
    out = np.empty((B, N + K))
    G[:, first:] = np.nan
    for part in (slice(0, cut), slice(cut, B)):
        some = weight[part] if weighted else EVEN
        experts.step(*heads, u, loss, tally, G[part], out[part], Z[part], y[part], some)
        experts.add_moments(np.ascontiguousarray(Z[part, 0]), y[part], some, counts, totals)
    trace = Trace(out[:, N:], out[:, :N], G.argmax(axis=2))
    for got, wanted in zip(
        trace, (expected.scores, expected.weights, expected.expert_predictions), strict=True
    ):
        np.testing.assert_allclose(got, wanted, atol=1e-9)
    np.testing.assert_allclose(G, F, atol=1e-9)
    np.testing.assert_allclose(W, plain, atol=1e-9)
    np.testing.assert_array_equal(loss[:N], state["expert_loss"])
    np.testing.assert_allclose(counts, moments.counts)
    np.testing.assert_allclose(totals, np.vstack([moments.total, moments.class_totals]), atol=1e-9)
    named = np.hstack([expected.scores.argmax(axis=1)[:, None], expected.expert_predictions])
    np.testing.assert_array_equal(trace.mistaken(y), (named != y[:, None])[y >= 0])
    wrong = (named != y[:, None])[y >= 0].sum(axis=0)
    assert tally.tolist() == [(y >= 0).sum(), *wrong, *space]
    np.testing.assert_allclose(loss[N], (expected.weights * expected.losses).sum())
