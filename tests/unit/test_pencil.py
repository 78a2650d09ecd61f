"""The scatter against a low rank: compared with dense oracles, over flat, falling and repeated spectra."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds

from hedgerow import align as pencil
from hedgerow.align import JDA, mean_gaps, scatter
from hedgerow.core import linalg
from hedgerow.core.linalg import diagonal_minus_low_rank

SPECTRA = {
    "falling": lambda r: 1.0 / np.arange(1, r + 1),
    "steep": lambda r: 0.9 ** np.arange(r),
    "flat": lambda r: 2.0 - np.arange(r) / r,
    "repeated": lambda r: np.repeat(np.arange(r // 5 + 1, 0, -1.0), 5)[:r],
    "constant": np.ones,
    "low rank": lambda r: np.where(np.arange(r) < 12, 1.0, 0.0),
}


def pair(seed, spectrum, r, k):
    """D and F with diag(D) - F F^T positive semidefinite, as the pencil makes them."""
    rng = np.random.default_rng(seed)
    D = np.asarray(SPECTRA[spectrum](r), dtype=float)
    mix = np.linalg.qr(rng.normal(size=(r, k)))[0] * rng.uniform(0.1, 0.99, k)
    return D, np.sqrt(D)[:, None] * mix


@pytest.mark.parametrize("spectrum", SPECTRA)
@given(
    seeds, st.sampled_from([20, 80, 200]), st.sampled_from([1, 4, 15]), st.sampled_from([1, 3, 10])
)
@law(25)
def test_the_largest_eigenpairs_of_a_diagonal_minus_a_low_rank(spectrum, seed, r, k, dim):
    D, F = pair(seed, spectrum, r, k)
    values, Y = diagonal_minus_low_rank(D, F, dim)
    core = np.diag(D) - F @ F.T
    np.testing.assert_allclose(values, scipy.linalg.eigvalsh(core)[::-1][:dim], atol=1e-12)
    np.testing.assert_allclose(core @ Y, Y * values, atol=1e-11)
    np.testing.assert_allclose(Y.T @ Y, np.eye(dim), atol=1e-11)


@pytest.mark.parametrize("failing", ["_by_tails", "_count_above"])
def test_the_whole_matrix_is_solved_where_the_tails_fail(failing, monkeypatch):
    D, F = pair(0, "falling", 300, 5)
    expected = diagonal_minus_low_rank(D, F, 10)[0]
    monkeypatch.setattr(linalg, failing, lambda *_: None if failing == "_by_tails" else 10)
    np.testing.assert_allclose(diagonal_minus_low_rank(D, F, 10)[0], expected, atol=1e-13)


def contrasts(rng, N, empty):
    codes = rng.integers(0, 3, N - N // 3)
    pseudo = rng.integers(0, 2 if empty else 3, N // 3)
    codes[:3] = range(3)
    pseudo[:2] = range(2)
    return mean_gaps(codes, pseudo, np.arange(3))


@pytest.mark.parametrize("block", [7, 512])
@given(
    seeds,
    st.sampled_from([(40, 6), (15, 60), (20, 20)]),
    st.booleans(),
    st.booleans(),
    st.floats(0.01, 10),
)
@law(30)
def test_the_pencil_is_the_dense_pencil(block, seed, shape, sparse, empty, lam):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=shape) + rng.normal(size=shape[1])
    X[np.abs(X) < 0.5] = 0
    E = contrasts(rng, shape[0], empty)
    with mock.patch.object(pencil, "GRAM_BLOCK", block):
        S = scatter(sp.csr_array(X) if sparse else X)
    solution = S.solve(E, lam, 4)
    V = (E @ X).T
    P = lam * np.eye(shape[1]) + V @ V.T
    D = X - X.mean(axis=0)
    np.testing.assert_allclose(S.values.sum(), (D * D).sum())
    np.testing.assert_allclose(
        solution.values, scipy.linalg.eigvalsh(D.T @ D, P)[::-1][:4], rtol=1e-8
    )
    for scaling in ("unit", "S"):
        A = S.directions(solution, scaling)
        np.testing.assert_allclose(
            D.T @ D @ A, P @ A * solution.values, atol=1e-8 * np.abs(P @ A * solution.values).max()
        )
        size = (
            np.linalg.norm(A, axis=0)
            if scaling == "unit"
            else np.sqrt(np.einsum("ij,ij->j", D @ A, D @ A))
        )
        np.testing.assert_allclose(size, 1, rtol=1e-9)
        Z = S.projected(solution, scaling)
        np.testing.assert_allclose(
            Z, X @ A * np.sign(((X @ A) * Z).sum(axis=0)), atol=1e-7 * np.abs(Z).max()
        )
        left = np.abs(solution.T / solution.scales(scaling))
        np.testing.assert_allclose(left, np.abs(V.T @ A), atol=1e-7 * max(left.max(), 1))


def test_the_rank_is_that_of_the_centred_rows():
    rng = np.random.default_rng(0)
    for shape in ((30, 6), (13, 40)):
        assert len(scatter(rng.normal(size=shape)).values) == min(shape[0] - 1, shape[1])


def test_single_precision_rows_are_solved_in_double():
    X = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    np.testing.assert_array_equal(scatter(X).values, scatter(X.astype(np.float64)).values)


def test_labels_that_come_back_are_not_solved_again(monkeypatch):
    """Pseudo-labels may cycle; each distinct set of them is one eigenproblem."""
    rng = np.random.default_rng(0)
    solved = []
    solve = JDA._round
    monkeypatch.setattr(
        JDA,
        "_round",
        lambda self, S, codes, pseudo, nt: (
            solved.append(pseudo) or solve(self, S, codes, pseudo, nt)
        ),
    )
    for _ in range(60):
        solved.clear()
        X = rng.normal(size=(12, 4))
        T = rng.normal(size=(10, 4))
        out = JDA(dim=2, rounds=30).fit(X, np.arange(12) % 3, T)
        if len(out.info.changed) == 30:
            assert len(solved) < 30
            return
    pytest.fail("no cycle found")
