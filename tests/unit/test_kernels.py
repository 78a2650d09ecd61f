"""Every compiled loop is its NumPy twin, for both precisions, with ties, weights and missing labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds

from hedgerow.core.moments import gap_weights, or_one
from hedgerow.core.preprocess import unit
from hedgerow.core.rule_numbers import RULES, UNSEEN
from hedgerow.heads import StepwiseHead, make_head, pa
from hedgerow.kernels import EVEN, heads, live, refresh, rows, windows

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
    heads.unit_rows(Z, out)
    np.testing.assert_allclose(out, unit(Z), rtol=1e-5)
    assert not out[0, 0].any()


@dataclass(frozen=True)
class Twin(StepwiseHead):
    """The specification of the passive-aggressive loops, one row at a time."""

    rule: str = "mine"
    C: float = 5.0

    def step(self, W, z, y, f):
        pa.step(W, z, y, self.rule, self.C)

    def weighted_step(self, W, z, y, f, weight):
        pa.step(W, z, y, self.rule, self.C * weight)


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
    which, space = np.array([1, 3]), np.array([0, 1, 1, 0])
    F, G = np.zeros((B, N, K)), np.zeros((B, N, K))
    ours, plain = W.copy(), W.copy()
    make_head(rule, C).blocks(ours, which, space, Z, y, weight if weighted else None, F)
    Twin(rule, C).blocks(plain, which, space, Z, y, weight if weighted else None, G)
    np.testing.assert_allclose(F, G, atol=1e-9)
    np.testing.assert_allclose(ours, plain, atol=1e-9)
    np.testing.assert_array_equal(ours[[0, 2]], W[[0, 2]])


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(0, 12), st.integers(1, 4), st.booleans())
@law(15)
def test_group_sums(dtype, seed, B, R, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(B, 3)).astype(dtype)
    group, weight = labels_and_weights(rng, B, R, weighted)
    out = np.ones((R, 3), dtype=dtype)
    windows.group_sums(X, group, weight, out)
    times = weight if weighted else np.ones(B)
    expected = 1 + (group == np.arange(R)[:, None]) * times @ X
    np.testing.assert_allclose(out, expected, **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(1, 12), st.booleans())
@law(15)
def test_add_labels(dtype, seed, B, weighted):
    rng = np.random.default_rng(seed)
    n, K, d = 2, 3, 4
    Z, TA = rng.normal(size=(B, n * d)).astype(dtype), rng.normal(size=(n, K + 1, d)).astype(dtype)
    y, weight = labels_and_weights(rng, B, K, weighted)
    times = np.where(y >= 0, weight if weighted else 1.0, 0.0)
    indicator = (y == np.arange(K)[:, None]) * times
    expected = TA.copy()
    expected[:, 1:] += (indicator @ Z).reshape(K, n, d).transpose(1, 0, 2)
    expected[:, 0] += (times @ Z).reshape(n, d)
    count, class_counts = np.array([2.0]), np.arange(K, dtype=float)
    windows.add_labels(Z, y, weight, TA, count, class_counts)
    np.testing.assert_allclose(TA, expected, **close(dtype))
    np.testing.assert_allclose(class_counts, np.arange(K) + indicator.sum(axis=1))
    np.testing.assert_allclose(count, 2 + times.sum())


@given(seeds, st.integers(0, 40), st.integers(0, 9), st.sampled_from([1, 3, 7, 100]))
@law(30)
def test_a_block_is_cut_into_windows(seed, B, seen, every):
    K, y = 3, np.random.default_rng(seed).integers(-1, 3, size=B)
    group, classes, cuts = np.empty(B, dtype=np.int64), np.empty(B, dtype=np.int64), np.empty((B, 5), dtype=np.int64)
    count, R = windows.cut(y, seen, every, K, group, classes, cuts)
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
@given(seeds)
@law(10)
def test_parts_of_a_projection(dtype, seed):
    rng = np.random.default_rng(seed)
    Z, shared, own = (rng.normal(size=shape).astype(dtype) for shape in ((5, 6), (5, 6), (2, 5, 3)))
    expected = Z + shared + own.transpose(1, 0, 2).reshape(5, 6)
    windows.add_parts(Z, shared, own)
    np.testing.assert_allclose(Z, expected, **close(dtype))


@given(seeds, st.integers(1, 4), st.integers(1, 3), st.booleans())
@law(15)
def test_products_with_rows_that_join(seed, K, n, weighted):
    """T M^T and T T^T after rows joined T, and the products of later rows, from products with T before."""
    rng = np.random.default_rng(seed)
    B, m, nd = 6, 7, 3
    M, T, X = (rng.normal(size=(rows, m)) for rows in (n * (K + 1), K + 1, B))
    later, U = rng.normal(size=(4, m)), rng.normal(size=(K + 1, nd))
    y, weight = labels_and_weights(rng, B, K, weighted)
    classes = np.unique(y[y >= 0])
    S = ((y == classes[:, None]) * (weight if weighted else np.ones(B))) @ X
    after = T.copy()
    after[1 + classes] += S
    after[0] += S.sum(axis=0)
    TS, TT = (T @ M.T).reshape(K + 1, n, K + 1).transpose(1, 0, 2).copy(), T @ T.T
    windows.add_products(y, weight, X @ M.T, X @ T.T, TS, TT)
    windows.add_gram(classes, S @ S.T, TT)
    np.testing.assert_allclose(TS, (after @ M.T).reshape(K + 1, n, K + 1).transpose(1, 0, 2), atol=1e-10)
    np.testing.assert_allclose(TT, after @ after.T, atol=1e-10)
    XTS, UL = later @ np.vstack([T, S]).T, np.vstack([U, np.full((len(S), nd), np.nan)])
    windows.move_on(0, len(S), classes, K + 1, XTS, UL)
    np.testing.assert_allclose(XTS[:, : K + 1], later @ after.T, atol=1e-10)
    np.testing.assert_array_equal(UL, np.vstack([U, -U[0] - U[1 + classes]]))


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


@given(seeds, st.integers(1, 13))
@law(30)
def test_cholesky_reads_the_upper_half(seed, n):
    G = np.random.default_rng(seed).normal(size=(n, 4))
    gram, L = np.eye(n) + G @ G.T, np.full((n, n), np.nan)
    expected = np.linalg.cholesky(gram)
    gram[np.tril_indices(n, -1)] = np.nan
    refresh.cholesky(gram, L)
    np.testing.assert_allclose(L, expected, atol=1e-10)


@given(seeds, st.integers(1, 11), st.integers(1, 6))
@law(30)
def test_substitution(seed, n, d):
    rng = np.random.default_rng(seed)
    L, C = np.tril(rng.normal(size=(n, n))) + 3 * np.eye(n), rng.normal(size=(n, d))
    down, up = C.copy(), C.copy()
    refresh.substitute(L, down, False)
    refresh.substitute(L, up, True)
    np.testing.assert_allclose(down, np.linalg.solve(L, C), atol=1e-8)
    np.testing.assert_allclose(up, np.linalg.solve(L, C[::-1])[::-1], atol=1e-8)


class Setting:
    """Means, sums, projections, counts and weights of gaps at random, and their products as a refresh needs them."""

    def __init__(self, seed, dtype, mu, n=2, K1=4, m=7, d=3):
        rng = np.random.default_rng(seed)
        self.M, self.T, self.A = rng.normal(size=(n, K1, m)), rng.normal(size=(K1, m)), rng.normal(size=(n, m, d))
        self.D, self.shares = rng.choice([0.0, 0.5, 1.0], size=(n, K1)), 1 / rng.integers(1, 5, size=K1)
        self.G = self.D[:, :, None] * (self.M - self.shares[:, None] * self.T)
        inverses = [np.linalg.inv(np.eye(m) + mu * g.T @ g) for g in self.G]
        self.after = np.stack([inverse @ a for inverse, a in zip(inverses, self.A, strict=True)])
        self.MA, self.TA = (self.M @ self.A).astype(dtype), (self.T @ self.A).astype(dtype)
        MT = self.M.transpose(0, 2, 1)
        self.SS, self.TS, self.TT = self.M @ MT, self.T @ MT, self.T @ self.T.T
        self.R, self.C = np.empty((n, K1, K1)), np.full((n, K1, d), np.nan)
        refresh.grams(self.SS, self.TS, self.TT, mu, self.D, self.shares, self.R)
        refresh.factor(self.R)

    def solve(self, first, last, mu):
        refresh.solve(first, last, self.SS, self.TS, mu, self.D, self.shares, self.R, self.C, self.MA, self.TA)


@given(seeds, st.integers(0, 3))
@law(10)
def test_one_mean_has_changed(seed, k):
    before, after = Setting(seed, np.float64, 0.7), Setting(seed + 1, np.float64, 0.7)
    after.M = before.M
    for name in ("D", "shares"):
        mixed = getattr(before, name).copy()
        mixed[..., k] = getattr(after, name)[..., k]
        setattr(after, name, mixed)
    T = before.T.copy()
    T[k] = after.T[k]
    MT = before.M.transpose(0, 2, 1)
    expected, R = np.empty_like(before.R), np.empty_like(before.R)
    refresh.grams(before.SS, T @ MT, T @ T.T, 0.7, after.D, after.shares, expected)
    refresh.grams(before.SS, before.TS, before.TT, 0.7, before.D, before.shares, R)
    refresh.regram(k, before.SS, T @ MT, T @ T.T, 0.7, after.D, after.shares, R)
    np.testing.assert_allclose(np.triu(R), np.triu(expected), atol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.floats(0, 3))
@law(15)
def test_the_small_refresh(dtype, seed, mu):
    """On products of vectors what the dense update of A does to A."""
    s = Setting(seed, dtype, mu)
    (n, m, d), K1 = s.A.shape, len(s.T)
    np.testing.assert_allclose(s.R @ s.R.transpose(0, 2, 1), np.eye(K1) + mu * s.G @ s.G.transpose(0, 2, 1), atol=1e-9)
    s.solve(0, 1, mu)
    s.solve(1, n, mu)
    P, U = np.zeros((n, K1, d), dtype=dtype), np.zeros((K1, n * d), dtype=dtype)
    refresh.move(s.C, s.shares, P, U)
    moved = s.A + s.M.transpose(0, 2, 1) @ P + (s.T.T @ U).reshape(m, n, d).transpose(1, 0, 2)
    np.testing.assert_allclose(moved, s.after, **close(dtype))
    np.testing.assert_allclose(s.MA, s.M @ s.after, **close(dtype))
    where = s.D > 0  # elsewhere there is no gap, and nothing to know
    np.testing.assert_allclose(s.TA[where], (s.T @ s.after)[where], **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.floats(0, 3), st.integers(0, 2))
@law(15)
def test_a_row_corrected_before_the_projections_are(dtype, seed, mu, solved):
    """x A after the refresh from x A before it, whichever sources have their C."""
    s = Setting(seed, dtype, mu)
    x = np.random.default_rng(seed + 1).normal(size=s.A.shape[1]).astype(dtype)
    s.solve(0, solved, mu)  # the other C are not numbers, and not to be read
    z = np.concatenate([x @ a for a in s.A]).astype(dtype)
    Mx, Tx = (s.M @ x).ravel().astype(dtype), (s.T @ x).astype(dtype)
    refresh.correct(z, Mx, Tx, solved, mu, s.D, s.shares, s.R, s.C, s.MA, s.TA)
    np.testing.assert_allclose(z, np.concatenate([x @ a for a in s.after]), **close(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(1, 12), st.integers(1, 5))
@law(15)
def test_few_products(dtype, seed, B, R):
    rng = np.random.default_rng(seed)
    X, M = rng.normal(size=(B, 13)).astype(dtype), rng.normal(size=(R, 13)).astype(dtype)
    out = np.full((B, R + 2), 7, dtype=dtype)
    windows.few_products(X, M, out)
    np.testing.assert_allclose(out[:, :R], X @ M.T, rtol=1e-4, atol=1e-5)
    assert (out[:, R:] == 7).all()


@given(seeds, st.sampled_from(sorted(UNSEEN)), st.floats(0.1, 9))
@law(30)
def test_weights_of_gaps(seed, rule, kappa):
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, 3, size=(2, 4)).astype(float), rng.integers(0, 3, size=4).astype(float)
    D, shares = np.empty((2, 4)), np.empty(4)
    refresh.gap_weights(source, target[:1], target[1:], UNSEEN[rule], kappa, D, shares)
    np.testing.assert_allclose(D, gap_weights(source, target, rule, kappa), rtol=1e-15)
    np.testing.assert_array_equal(shares, 1 / or_one(target))


def test_a_row_is_kept_as_often_as_it_counts(rng):
    x, z = rng.normal(size=5), rng.normal(size=4)
    rows, Z, labels, weights = np.zeros((3, 5)), np.zeros((3, 4)), np.zeros(3, dtype=np.int64), np.zeros(3)
    live.keep(x, z, 7, 2.5, 1, rows, Z, labels, weights)
    np.testing.assert_array_equal(rows, np.stack([np.zeros(5), 2.5 * x, np.zeros(5)]))
    np.testing.assert_array_equal(Z, np.stack([np.zeros(4), z, np.zeros(4)]))
    assert labels.tolist() == [0, 7, 0]
    assert weights.tolist() == [0, 2.5, 0]


@given(seeds, st.integers(1, 6))
@law(15)
def test_waiting_rows_are_taken_in(seed, B):
    """T and its products after the first B of six rows joined it."""
    s, rng = Setting(seed, np.float64, 1.0), np.random.default_rng(seed + 1)
    m, K1 = s.A.shape[1], len(s.T)
    rows, y, weight = rng.normal(size=(6, m)), rng.integers(0, K1 - 1, size=6), rng.exponential(size=6)
    Z = np.concatenate([rows / weight[:, None] @ a for a in s.A], axis=1)
    products = np.hstack([rows @ np.vstack([*s.M, s.T]).T, np.full((6, 6), np.nan)])
    T, moments = s.T.copy(), [np.zeros(1), np.zeros(K1 - 1), np.zeros(m), np.zeros((K1 - 1, m))]
    windows.take_in(B, rows, Z, y, weight, products, s.TS, s.TT, s.TA, T, *moments)
    sums = (y[:B] == np.arange(K1 - 1)[:, None]) @ rows[:B]
    np.testing.assert_allclose(T, s.T + np.vstack([sums.sum(axis=0), sums]), atol=1e-10)
    np.testing.assert_allclose(s.TT, T @ T.T, atol=1e-9)
    np.testing.assert_allclose(s.TS, T @ s.M.transpose(0, 2, 1), atol=1e-9)
    np.testing.assert_allclose(s.TA, T @ s.A, atol=1e-9)
    np.testing.assert_allclose(moments[0], weight[:B].sum())
    np.testing.assert_allclose(moments[1], np.bincount(y[:B], weight[:B], K1 - 1))
    np.testing.assert_allclose(moments[2], sums.sum(axis=0))
    np.testing.assert_allclose(moments[3], sums)


@pytest.mark.parametrize("dtype", DTYPES)
@given(seeds, st.integers(0, 5), st.integers(1, 2))
@law(10)
def test_the_gaps_of_some_features(dtype, seed, first, w):
    s = Setting(seed, dtype, 1.0)
    here = slice(first, first + w)
    G, H, moves = np.full((len(s.A), len(s.T), w), np.nan), s.A.transpose(1, 0, 2).copy(), s.A[:, :w].copy()
    windows.gaps(first, s.M, s.T, s.shares, G)
    np.testing.assert_allclose(G, (s.M - s.shares[:, None] * s.T)[:, :, here], atol=1e-12)
    expected = s.A.copy()
    expected[:, here] -= moves
    windows.subtract(first, moves, H)
    np.testing.assert_array_equal(H, expected.transpose(1, 0, 2))


@given(seeds)
@law(10)
def test_rows_join_their_class_sums(seed):
    rng = np.random.default_rng(seed)
    rows, labels = rng.normal(size=(5, 3)), rng.integers(0, 2, 5)
    T, total, class_totals = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=(2, 3))
    sums = (labels == np.arange(2)[:, None]) @ rows
    expected = [T + np.vstack([sums.sum(axis=0), sums]), total + rows.sum(axis=0), class_totals + sums]
    windows.join(rows, labels, T, total, class_totals)
    for got, wanted in zip((T, total, class_totals), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-12)
