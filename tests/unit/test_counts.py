"""What a step costs, in bytes and eigenproblems and not in seconds: bounds that do not grow with the stream."""

from __future__ import annotations

import copy
import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from numpy.lib import tracemalloc_domain as TRACEMALLOC_DOMAIN
from support.laws import classifier

from hedgerow import Domain
from hedgerow.align import JDA

M = 400  # features, classes, dimension, sources
K = 6
D = 8
N_SOURCES = 2


def made(stream=700, **options):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(K, M)) / 10

    def domain(name, rows):
        codes = rng.permutation(np.arange(rows) % K)
        return Domain(name, centres[codes] + rng.normal(size=(rows, M)) / 20, codes)

    sources = [domain(f"source {i}", 60) for i in range(N_SOURCES)]
    clf = classifier("oddm", preprocess=(), aligner=JDA(dim=D, rounds=2), **options)
    clf.fit_domains(sources, domain("warm-up", 40))
    target = domain("target", stream)
    return clf, target.X, np.asarray(target.y)


# -- streams ------------------------------------------------------------------------------------------------------


def test_a_long_block_holds_what_a_short_one_does_and_its_answers():
    """No copy of the rows, and nothing that stays but what is returned."""
    started, X, y = made(stream=2000)
    started.predict_then_learn(X[:400], y[:400])
    counts = []
    for _ in range(
        3
    ):  # the least counts: what other threads of this process allocate meanwhile only adds
        clf = copy.deepcopy(started)
        _, short = traced(lambda clf=clf: clf.predict_then_learn(X[400:800], y[400:800]))
        counts.append((*traced(lambda clf=clf: clf.predict_then_learn(X[800:], y[800:])), short))
    kept, long, short = np.min(counts, axis=0)
    assert long - short <= 800 * X[0].nbytes / 4  # 800 rows more
    assert kept < X[0].nbytes


def both(clf, x, label):
    clf.predict_one(x)
    clf.learn_one(x, label)


def test_a_row_holds_little_more_than_itself_and_leaves_nothing():
    first = 60
    last = 160
    clf, X, y = made(refresh_every=20)
    for x, label in zip(
        X[:last], y[:last], strict=True
    ):  # loaded and compiled before anything is counted
        clf.learn_one(x, label)
    repeats = []
    for _ in range(
        2
    ):  # the lesser counts: what other threads of this process allocate meanwhile only adds
        clf, *_ = made(refresh_every=20)  # of the same rows
        steps = [
            traced(partial(both, clf, x, label))
            for x, label in zip(X[:last], y[:last], strict=True)
        ]
        repeats.append(steps[first:])
    kept, held = np.min(repeats, axis=0).T
    assert (
        np.median(held) <= 3 * X[0].nbytes
    )  # the row that is remembered, Python's own objects, the trace
    assert np.median(kept) <= 128
    assert (
        max(held) <= 2 * 8 * M * N_SOURCES * D < 8 * M * M / 10
    )  # at a refresh: in proportion to the spaces


# -- JDA ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize("m", [150, 1000])
def test_jda_solves_one_problem_of_the_size_of_the_data(m, rounds, eigenproblems):
    """However many rounds it takes: all others are of the size of the dimension and the classes."""
    JDA(dim=D, lam=0.1, rounds=rounds).fit(*domains(m))
    large, *small = sorted(eigenproblems, reverse=True)
    assert large == min(m, 200)
    assert len(small) >= rounds
    assert max(small) <= 3 * (D + K + 1)


def test_jda_of_sparse_rows_holds_its_directions_and_little_more():
    """m = 20,000 features, 50 nonzeros a row: A and one more of its size; no row is written out."""
    rng = np.random.default_rng(2)
    m = 20_000
    N = 120
    nonzeros = 50
    X = sp.csr_array(
        (
            rng.random(N * nonzeros),
            (np.arange(N).repeat(nonzeros), rng.integers(0, m, N * nonzeros)),
        ),
        (N, m),
    )
    codes = np.arange(80) % K
    JDA(dim=D, rounds=2).fit(X[:80], codes, X[80:])
    _, held = traced(lambda: JDA(dim=D, rounds=2).fit(X[:80], codes, X[80:]))
    assert held <= 8 * (2 * m * D + 4 * m + 12 * N * N + 8 * N * nonzeros) < 8 * N * m


def traced(work):
    """Bytes of arrays that stay after the work, and the most bytes of any kind that it held.

    Only arrays are counted as staying: strings and frames that other threads of the process make meanwhile
    (pytest-xdist has some) are not the library's.
    """
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        peak = tracemalloc.get_traced_memory()[1]
        arrays = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.DomainFilter(True, TRACEMALLOC_DOMAIN)]
        )
        return sum(trace.size for trace in arrays.traces), peak - before
    finally:
        tracemalloc.stop()
