"""Every compiled loop is its NumPy twin, for both precisions, with ties, weights and missing labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds

from hedgerow.align import refreshed
from hedgerow.core.constants import RULES, UNSEEN
from hedgerow.core.moments import Moments, gap, gap_weights, or_one
from hedgerow.core.preprocess import unit
from hedgerow.heads import StepwiseHead, make_head, step
from hedgerow.kernels import EVEN, experts, refresh, rows
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


@dataclass(frozen=True)
class Twin(StepwiseHead):
    """The specification of the passive-aggressive loops, one row at a time."""

    rule: str = "mine"
    C: float = 5.0

    def step(self, W, z, y, f):
        step(W, z, y, self.rule, self.C)

    def weighted_step(self, W, z, y, f, weight):
        step(W, z, y, self.rule, self.C * weight)


@pytest.mark.parametrize("rule", sorted(RULES))
@given(seeds, st.integers(1, 5), st.booleans(), st.booleans())
@law(10)
def test_all_heads_at_once(rule, seed, K, weighted, tied):
    """Ties are exact, in whatever order numbers are added: rows of signs and zeros, steps that are powers of two."""
    rng = np.random.default_rng(seed)
    N, n, B, d, C = (4, 2, 12, 4, 1 / 16) if tied else (4, 2, 12, 5, 0.7)
    Z = rng.choice([-1.0, 1.0], size=(B, n, d)) * (rng.random((B, n, 1)) < 0.9) if tied else rng.normal(size=(B, n, d))
    W = np.zeros((N, K, d)) if tied else rng.normal(size=(N, K, d))
    y, weight = labels_and_weights(rng, B, K, weighted)
    if weighted and tied:
        weight[:] = 1
    first, space = 2, np.array([0, 1, 1, 0])
    F, G = np.zeros((B, N, K)), np.zeros((B, N, K))
    ours, plain = W.copy(), W.copy()
    make_head(rule, C).blocks(ours, first, space, Z, y, weight if weighted else None, F)
    Twin(rule, C).blocks(plain, first, space, Z, y, weight if weighted else None, G)
    np.testing.assert_allclose(F, G, atol=1e-9)
    np.testing.assert_allclose(ours, plain, atol=1e-9)
    np.testing.assert_array_equal(ours[:first], W[:first])


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(0, 12), st.integers(1, 4), st.booleans())
@law(15)
def test_group_sums(dtype, seed, B, R, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(B, 3)).astype(dtype)
    group, weight = labels_and_weights(rng, B, R, weighted)
    out = np.ones((R, 3), dtype=dtype)
    refresh.group_sums(X, group, weight, out)
    times = weight if weighted else np.ones(B)
    expected = 1 + (group == np.arange(R)[:, None]) * times @ X
    np.testing.assert_allclose(out, expected, **close(dtype))


@given(seeds, st.integers(0, 40), st.integers(0, 9), st.sampled_from([1, 3, 7, 100]))
@law(30)
def test_a_block_is_cut_into_windows(seed, B, seen, every):
    K, y = 3, np.random.default_rng(seed).integers(-1, 3, size=B)
    group, classes, cuts = np.empty(B, dtype=np.int64), np.empty(B, dtype=np.int64), np.empty((B, 5), dtype=np.int64)
    count, R = refresh.cut(y, seen, every, K, group, classes, cuts)
    labels = seen + np.cumsum(y >= 0)
    lasts = np.flatnonzero((y >= 0) & (labels % every == 0)) + 1
    firsts = np.append(0, lasts)
    edges = np.unique(np.concatenate([[0], lasts, [B]]))
    np.testing.assert_array_equal(cuts[:count, :2], np.stack([edges[:-1], edges[1:]], axis=1))
    np.testing.assert_array_equal(cuts[:count, 4], np.isin(edges[1:], lasts))
    for first, last, start, stop, _ in cuts[:count]:
        assert sorted(classes[start:stop]) == sorted(set(y[first:last].tolist()) - {-1})
    assert (cuts[count - 1, 3] if count else 0) == R
    window = np.searchsorted(firsts, np.arange(B), side="right") - 1
    np.testing.assert_array_equal(group < 0, y < 0)
    for t in np.flatnonzero(y >= 0):
        assert classes[group[t]] == y[t]
        assert cuts[window[t], 2] <= group[t] < cuts[window[t], 3]


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(1, 11), st.integers(1, 9))
@law(15)
def test_products_of_a_row(dtype, seed, K, d):
    rng = np.random.default_rng(seed)
    M, z, first = rng.normal(size=(K, d)).astype(dtype), rng.normal(size=d).astype(dtype), int(rng.integers(d + 1))
    before, after = np.full(K, 7, dtype=dtype), np.full(d, 7, dtype=dtype)
    rows.product_row(M, z, before, first)
    np.testing.assert_allclose(before, M[:, first:] @ z[first:], **close(dtype))
    rows.row_product(before, M, after)
    np.testing.assert_allclose(after, before @ M, **close(dtype))
    for Z in (z[None], np.stack([z, z])):
        np.testing.assert_allclose(rows.times(Z, M.T), Z @ M.T, **close(dtype))
        np.testing.assert_allclose(rows.times(Z, np.ascontiguousarray(M.T)), Z @ M.T, **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(1, 11), st.integers(1, 9))
@law(15)
def test_scores_of_equal_weights_are_equal(dtype, seed, K, d):
    rng = np.random.default_rng(seed)
    W, z, f = rng.normal(size=(K, d)).astype(dtype), rng.normal(size=d).astype(dtype), np.empty(K, dtype=dtype)
    rows.product_row(W, z, f)
    np.testing.assert_allclose(f, W @ z, **close(dtype))
    W[:] = W[0]
    rows.product_row(W, z, f)
    assert (f == f[0]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(1, 12), st.booleans())
@law(15)
def test_labelled_rows_join_the_moments(dtype, seed, B, weighted):
    """T A and the target's moments, as their definitions add rows."""
    rng = np.random.default_rng(seed)
    n, K, d, m = 2, 3, 4, 5
    X = rng.normal(size=(B, m)).astype(dtype)
    Z, TA = rng.normal(size=(B, n * d)).astype(dtype), rng.normal(size=(n, K + 1, d)).astype(dtype)
    y, weight = labels_and_weights(rng, B, K, weighted)
    times = np.where(y >= 0, weight if weighted else 1.0, 0.0)
    indicator = (y == np.arange(K)[:, None]) * times
    expected = TA.copy()
    expected[:, 1:] += (indicator @ Z).reshape(K, n, d).transpose(1, 0, 2)
    expected[:, 0] += (times @ Z).reshape(n, d)
    refresh.add_projections(Z, y, weight, TA)
    np.testing.assert_allclose(TA, expected, **close(dtype))
    ours, plain = Moments.of(X, None, K), Moments.of(X, None, K)
    counts, totals = ours.counts, np.vstack([ours.total, ours.class_totals])
    refresh.add_moments(X, y, weight, counts, totals)
    ours = Moments(counts[:1], totals[0], counts[1:], totals[1:])
    plain.add(X, y, weight if weighted else None)
    for name in ("count", "total", "class_counts", "class_totals"):
        np.testing.assert_allclose(getattr(ours, name), getattr(plain, name), **close(dtype))


@given(seeds, st.integers(1, 4), st.integers(1, 3))
@law(15)
def test_products_with_class_sums_that_join(seed, K, n):
    """T M^T and T T^T after class sums joined T, from their products with T before; and the products of later rows."""
    rng = np.random.default_rng(seed)
    m, K1, R = 7, K + 1, 5
    M, T, S, later = (rng.normal(size=(size, m)) for size in (n * K1, K1, R, 4))
    classes, first = rng.integers(0, K, R), (n + 1) * K1
    after = T.copy()
    np.add.at(after, 1 + classes, S)
    after[0] += S.sum(axis=0)

    def with_sources(T):
        return (T @ M.T).reshape(K1, n, K1).transpose(1, 0, 2).copy()

    unused = [np.empty(0)] * 8
    products = refresh.Products(unused[0], unused[1], with_sources(T), T @ T.T, *unused[1:])
    refresh.join(products, S @ np.vstack([M, T, S]).T, classes, first)
    np.testing.assert_allclose(products.TS, with_sources(after), atol=1e-10)
    np.testing.assert_allclose(products.TT, after @ after.T, atol=1e-10)
    XB = later @ np.vstack([M, T, S]).T
    refresh.fold(XB, n * K1, K1, classes)
    np.testing.assert_allclose(XB[:, n * K1 : first], later @ after.T, atol=1e-10)


@given(seeds, st.integers(1, 13))
@law(30)
def test_cholesky_reads_the_lower_half(seed, n):
    G = np.random.default_rng(seed).normal(size=(n, 4))
    R = np.eye(n) + G @ G.T
    expected = np.linalg.cholesky(R)
    R[np.triu_indices(n, 1)] = np.nan
    refresh.cholesky(R)
    np.testing.assert_allclose(np.tril(R), expected, atol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.floats(0, 3), st.sampled_from(sorted(UNSEEN)), st.floats(0.1, 9))
@law(30)
def test_the_small_refresh(dtype, seed, mu, unseen, kappa):
    """On products of vectors what `refreshed` with `gap` does to A."""
    rng = np.random.default_rng(seed)
    n, K, m, d = 2, 3, 7, 3
    sources = [Moments.of(rng.normal(size=(4, m)), rng.integers(0, K, 4), K) for _ in range(n)]
    target = Moments.of(rng.normal(size=(3, m)), rng.integers(0, K, 3), K)
    A, K1 = rng.normal(size=(n, m, d)), K + 1
    after = np.stack([refreshed(a, gap(s, target, unseen, kappa), mu) for a, s in zip(A, sources, strict=True)])
    M, T = np.stack([s.means for s in sources]), np.vstack([target.total, target.class_totals])
    MT, counts = M.transpose(0, 2, 1), np.stack([s.counts for s in sources])
    MA, TA, C = (M @ A).astype(dtype), (T @ A).astype(dtype), np.empty((n, K1, d), dtype=dtype)
    small = np.empty((n, K1)), np.empty(K1), np.empty((n, K1, K1)), np.empty((n, K1, K1))
    products = refresh.Products(counts, M @ MT, T @ MT, T @ T.T, MA, TA, *small, C)
    refresh.prepare(products, target.counts, UNSEEN[unseen], kappa, mu)
    np.testing.assert_allclose(products.D, gap_weights(counts, target.counts, unseen, kappa), rtol=1e-15)
    np.testing.assert_array_equal(products.shares, 1 / or_one(target.counts))
    R = np.tril(products.R)
    C[:] = np.linalg.solve(R @ R.transpose(0, 2, 1), C)
    P, U = np.zeros((n, K1, d), dtype=dtype), np.zeros((K1, n * d), dtype=dtype)
    refresh.finish(products, products.MG @ C, mu, P, U)
    moved = A + MT @ P + (T.T @ U).reshape(m, n, d).transpose(1, 0, 2)
    np.testing.assert_allclose(moved, after, **close(dtype))
    np.testing.assert_allclose(products.MA, M @ after, **close(dtype))
    where = products.D > 0  # elsewhere there is no gap, and nothing to know
    np.testing.assert_allclose(products.TA[where], (T @ after)[where], **close(dtype))


def test_ties_of_experts_go_to_the_lowest_class():
    head, Z, one = make_head("pa1"), np.ones((2, 1, 2)), np.zeros(1, dtype=np.int64)
    for vote in (False, True):
        W, S, space, rule, C, u = head.compiled(np.zeros((1, 3, 2)), 0, one, None)
        learned = np.array([0.0, 0.0, rule, C, 0.0, vote]), np.append(np.zeros(3, dtype=np.int64), space)
        F, out = np.empty((2, 1, 3)), np.empty((2, 4))
        named = experts.step(W, S, u, *learned, np.zeros(4), np.zeros((4, 2)), F, out, Z, np.full(2, -1), EVEN)
        assert [named] * 2 == F.argmax(axis=2).ravel().tolist() == out[:, 1:].argmax(axis=1).tolist() == [0, 0]


@pytest.mark.parametrize("rule", ["pa1", "arow"])
@given(seeds, st.sampled_from([None, 0.3, 0.9]), st.sampled_from(["scores", "vote"]), st.booleans(), st.integers(0, 12))
@law(20)
def test_the_step_of_experts_is_its_parts(rule, seed, beta, combination, weighted, cut):
    """Heads, Hedge and counters in one loop, whole and in two parts, as each of them does for itself in NumPy."""
    rng = np.random.default_rng(seed)
    B, n, d, K, N = 12, 2, 4, 3, 4
    head, mixer = make_head(rule, 0.7), Hedge(beta, combination)
    Z, W = rng.normal(size=(B, n, d)), rng.normal(size=(N, K, d))
    y, weight = labels_and_weights(rng, B, K, weighted)
    first, space = 2, np.array([0, 1, 1, 0])
    memory = None if head.memory(d) is None else np.stack([head.memory(d)] * 2)
    plain, S = W.copy(), None if memory is None else memory.copy()
    F, state = np.einsum("bnd,nkd->bnk", Z[:, space], plain), mixer.start(N)
    for i, e in enumerate(range(first, N)):
        for t in range(B):
            F[t, e] = plain[e] @ Z[t, space[e]]
            if y[t] >= 0:
                C = 0.7 * weight[t] if weighted else 0.7
                step(plain[e], Z[t, space[e]], int(y[t]), rule, C, None if S is None else S[i])
    expected = mixer.run(state, 0, F, y)
    moments = Moments.empty(d, K)
    moments.add(Z[:, 0], y, weight if weighted else None)
    counts, totals = np.zeros(1 + K), np.zeros((1 + K, d))
    *heads, _, rule_number, C, u = head.compiled(W, first, space, memory)
    loss = np.array([*np.zeros(N + 1), rule_number, C, beta or 0.0, combination == "vote"])
    tally = np.append(np.zeros(2 + N, dtype=np.int64), space)
    G, out = F.copy(), np.empty((B, N + K))
    G[:, first:] = np.nan
    for part in (slice(0, cut), slice(cut, B)):
        some = weight[part] if weighted else EVEN
        experts.step(*heads, u, loss, tally, counts, totals, G[part], out[part], Z[part], y[part], some)
    trace = Trace(out[:, N:], out[:, :N], G.argmax(axis=2))
    for got, wanted in zip(trace, (expected.scores, expected.weights, expected.expert_predictions), strict=True):
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
