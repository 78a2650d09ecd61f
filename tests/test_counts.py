"""What a step costs, in counts and not in seconds: products with the large matrices, eigenproblems, bytes.

A number here that has to grow is a slow-down, and is to be argued for where it is changed.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from laws import classifier

from hedgerow import Domain
from hedgerow.align import JDA
from hedgerow.kernels import live, rows
from hedgerow.learners.experts import block_refresh as moving
from hedgerow.learners.ridge import regression, space
from hedgerow.learners.ridge.pool import TURN

M, K, D, N_SOURCES = 400, 6, 8, 2  # features, classes, dimension, sources


class Counted(np.ndarray):
    """A matrix that notes what it is multiplied with."""

    products: list[tuple[int, ...]]

    def __array_finalize__(self, other: Any) -> None:
        self.products = getattr(other, "products", [])

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        if ufunc is np.matmul:
            self.products.append(tuple(np.shape(part) for part in inputs))
        plain = [np.asarray(part) if isinstance(part, Counted) else part for part in inputs]
        into = {} if out is None else {"out": tuple(np.asarray(part) for part in out)}
        return getattr(ufunc, method)(*plain, **into, **options)


def made(method="oddm", stream=700, **options):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(K, M)) / 10

    def domain(name, rows):
        codes = rng.permutation(np.arange(rows) % K)
        return Domain(name, centres[codes] + rng.normal(size=(rows, M)) / 20, codes)

    sources = [domain(f"source {i}", 60) for i in range(N_SOURCES)]
    given = {"preprocess": (), "aligner": JDA(dim=D, rounds=2)} if method == "oddm" else {}
    clf = classifier(method, **given, **options).fit_domains(sources, domain("warm-up", 40))
    target = domain("target", stream)
    return clf, target.X, np.asarray(target.y)


def logged(monkeypatch, module, name):
    calls = []
    original = getattr(module, name)

    def call(*given):
        calls.append(given)
        return original(*given)

    monkeypatch.setattr(module, name, call)
    return calls


# -- the replay -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [5, 20, 60])
def test_a_block_is_two_products_with_the_spaces_and_the_means_and_one_update(every, monkeypatch):
    """Whatever T_w is: X H, X [means, sums]^T, and H takes in the block's class sums."""
    clf, X, y = made(refresh_every=every)
    seen: dict[str, list[Any]] = {"H": [], "basis": []}
    original = moving.BlockRefresh.__init__

    def counting(self, *given):
        original(self, *given)
        for name, products in seen.items():
            matrix = getattr(self, name).view(Counted)
            matrix.products = products
            setattr(self, name, matrix)

    monkeypatch.setattr(moving.BlockRefresh, "__init__", counting)
    monkeypatch.setattr(moving, "ANCHOR", 10**9)
    updates = logged(monkeypatch, moving, "add_product")
    refreshes = logged(monkeypatch, moving.BlockRefresh, "_refresh")
    learner = clf.learner_
    learner.run(X, y)
    blocks = -(-len(X) // learner.block)
    sizes = [min(learner.block, len(X) - a) for a in range(0, len(X), learner.block)]
    K1 = K + 1
    assert seen["H"] == [((B, M), (M, N_SOURCES * D)) for B in sizes]
    assert seen["basis"] == [((B, M), (M, (N_SOURCES + 1) * K1)) for B in sizes]
    assert len(updates) == blocks
    assert len(refreshes) == len(X) // every


@pytest.mark.parametrize("every", [5, 20, 60])
def test_a_block_allocates_what_its_own_rows_need(every):
    """No second copy of the spaces or the rows, and nothing that stays."""
    clf, X, y = made(refresh_every=every)
    learner = clf.learner_
    B, n, K1 = learner.block, N_SOURCES, K + 1
    learner.run(X[:B], y[:B])
    cut, _, classes = moving._cut(y[B : 2 * B], learner.seen, every, K)
    earlier, squares = cut[-1].start, sum((window.stop - window.start) ** 2 for window in cut)
    rows = B * (n * D + (n + 1) * K1 + earlier + n * D + 2 * n * K)  # projected, multiplied, normalised, scored
    sums = len(classes) * (M + n * D) + squares + K1 * n * D  # themselves, multiplied, and what the spaces lose
    window, trace = 3 * every * n * D, B * (K + 2 * n + 2 * n)  # parts of the projections; then what happened
    kept, held = traced(lambda: learner.run(X[B : 2 * B], y[B : 2 * B]))
    assert held == pytest.approx(8 * (rows + sums + max(window, trace)), rel=0.02)
    assert kept < 2048


# -- one instance -----------------------------------------------------------------------------------------------


def test_a_live_step_is_one_pass_over_the_spaces(monkeypatch):
    """The prediction reads them; the label finds its projection there. Near a refresh, the means and sums as well."""
    every, count = 20, 200
    clf, X, y = made(refresh_every=every)
    by_row, by_column = logged(monkeypatch, rows, "row_product"), logged(monkeypatch, rows, "product_row")
    predicted = logged(monkeypatch, live, "predict")
    for x, label in zip(X[:count], y[:count], strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)
    passes = [matrix.shape for _, matrix, *_ in by_row] + [H.shape for _, H, project, *_ in predicted if project]
    assert passes == [(M, N_SOURCES * D)] * count
    windows, means, sums = count // every, N_SOURCES * (K + 1), K + 1
    shapes = Counter(matrix.shape for matrix, *_ in by_column)
    corrected = 9 * (windows - 1)  # in nine steps of a window: pieces are small, so that no call waits for long
    assert shapes == {(means + sums, M): 2 * windows, (means, M): corrected, (sums, M): corrected}


def test_a_live_step_allocates_nothing_to_speak_of():
    every, first, last = 20, 60, 160
    clf, X, y = made(refresh_every=every)
    kept, held = [], []
    for i in range(last):
        one = traced(lambda i=i: (clf.predict_one(X[i]), clf.learn_one(X[i], y[i])))
        if i >= first:
            kept.append(one[0])
            held.append(one[1])
    assert np.median(held) <= 2048 < X[0].nbytes  # Python's own objects, and the trace that is returned
    assert np.median(kept) <= 128
    assert sorted(held)[-6 * (last - first) // every - 1] <= 4096  # but for six steps of a window
    assert max(held) <= 8 * N_SOURCES * (K + 1) * M  # a slice of the gaps


# -- JDA --------------------------------------------------------------------------------------------------------


@pytest.fixture
def eigenproblems(monkeypatch):
    """The sizes of the symmetric eigenproblems that are solved."""
    sizes = []
    for module, name in ((scipy.linalg, "eigh"), (np.linalg, "eigh")):
        original = getattr(module, name)

        def solve(S, *given, original=original, **options):
            sizes.append(len(S))
            return original(S, *given, **options)

        monkeypatch.setattr(module, name, solve)
    return sizes


def domains(m, source=120, target=80):
    rng = np.random.default_rng(1)
    falling = 1 / np.sqrt(np.arange(1, m + 1))
    codes = np.arange(source) % K
    centres = 0.6 * rng.normal(size=(K, m))
    X = (centres[codes] + rng.normal(size=(source, m))) * falling
    return X, codes, (centres[np.arange(target) % K] + rng.normal(size=(target, m)) + 0.3) * falling


@pytest.mark.parametrize("m", [150, 1000])
def test_jda_factorises_once_and_then_solves_small_problems(m, eigenproblems):
    """min(m, N) once; then for each round one of 2d + 2k, and one or two of 3d + 2k: k is 1 at first, then K + 1."""
    out = JDA(dim=D, lam=0.1, rounds=5).fit(*domains(m))
    rounds, k = len(out.info.discrepancy), K + 1
    assert rounds > 2
    assert eigenproblems[0] == min(m, 200)
    small = {1: [2 * D + 2, 3 * D + 2], k: [2 * D + 2 * k, 3 * D + 2 * k]}
    found = eigenproblems[1:]
    assert found[:2] == small[1]
    assert set(found[2:]) == set(small[k])
    assert found.count(small[k][0]) == rounds - 1
    assert found.count(small[k][1]) <= 2 * (rounds - 1)


def test_jda_of_sparse_rows_holds_its_directions_and_little_more(eigenproblems):
    """m = 20,000 features, 50 nonzeros a row: A and one more of its size; no row is written out."""
    rng = np.random.default_rng(2)
    m, N, nonzeros = 20_000, 120, 50
    X = sp.csr_array(
        (rng.random(N * nonzeros), (np.arange(N).repeat(nonzeros), rng.integers(0, m, N * nonzeros))), (N, m)
    )
    codes = np.arange(80) % K
    JDA(dim=D, rounds=2).fit(X[:80], codes, X[80:])
    eigenproblems.clear()
    _, held = traced(lambda: JDA(dim=D, rounds=2).fit(X[:80], codes, X[80:]))
    assert eigenproblems[0] == N
    assert held <= 8 * (2 * m * D + 4 * m + 12 * N * N + 8 * N * nonzeros) < 8 * N * m


# -- our own learner --------------------------------------------------------------------------------------------


def test_our_learner_reads_and_writes_each_P_once_a_block(monkeypatch):
    """But for the pool's, once a turn (and once more for labels that move), and where labels fade."""
    clf, X, y = made("hedgerow", stream=400)
    learner, block = clf.learner_, clf.learner_.block
    learner.run(X[:block], y[:block])
    reads, writes = (logged(monkeypatch, regression, name) for name in ("symmetric_product", "add_gram"))
    matrices = [one.regression.P for one in learner.spaces]
    learner.run(X[block : 2 * block], y[block : 2 * block])
    for one, P in zip(learner.spaces, matrices, strict=True):
        assert one.regression.P is P
        read, written = (
            [len(call[1 - at]) for call in calls if call[at] is P] for calls, at in ((reads, 1), (writes, 0))
        )
        if one.pool is not None:
            assert len(written) <= block // TURN + 1
            assert len(read) <= 2 * (block // TURN + 1)
        elif one.settings.keep < 1:
            assert sum(read) == sum(written) == block
            assert len(read) <= block // space.FADE + 2
        else:
            assert read == written == [block]


def traced(work):
    """Bytes that stay after the work, and the most that it held."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        after, peak = tracemalloc.get_traced_memory()
        return after - before, peak - before
    finally:
        tracemalloc.stop()
