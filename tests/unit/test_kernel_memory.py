"""A compiled loop gives the same bits wherever its arrays lie in memory: else a recovered model would not be equal."""

from __future__ import annotations

import numpy as np
import pytest
from support.laws import METHODS, make_task

from hedgerow import OnlineTransferClassifier
from hedgerow.kernels import experts, ridge, rows
from hedgerow.ridge import mixture

PLACES = 400
rng = np.random.default_rng(3)


def laid_out(arguments, places):
    """Copies of all arrays in one piece of memory, side by side in any order, with small gaps."""
    arrays = [i for i, each in enumerate(arguments) if isinstance(each, np.ndarray)]
    pool = np.zeros(sum(arguments[i].nbytes + 512 for i in arrays) + 64, np.uint8)
    at = -pool.ctypes.data % 64
    found = list(arguments)
    for i in places.permutation(arrays):
        at += 8 * int(places.integers(0, 9))
        array = arguments[i]
        found[i] = pool[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
        found[i][...] = array
        at += -(-array.nbytes // 8) * 8
    return found


def scattered(arguments, places, heap):
    """Copies of all arrays, and holes between them for what the loop itself asks for."""
    found = []
    for each in arguments:
        found.append(each.copy() if isinstance(each, np.ndarray) else each)
        heap.append(np.empty(int(places.integers(1, 300))))
        if places.random() < 0.3:
            del heap[int(places.integers(len(heap)))]
    return found


def newton(f, K):
    work = np.zeros(2 * K + (2 + f) * f)
    return [
        rng.normal(size=f),
        3.0 * np.eye(f),
        rng.normal(size=(f, K)),
        np.full(K, -np.log(K)),
        1,
        0.98,
        0.3,
        work,
    ]


def mixed(heads, K):
    mix = ridge.Mixture(*mixture.initial(heads, K).values())
    work = np.zeros(ridge.mixing_room(heads, K))
    return [*mix, rng.normal(size=(heads, K)), 1, np.zeros(K), np.zeros(heads + 1), work]


def mix_row(*arguments):
    ridge.mix_row(ridge.Mixture(*arguments[:6]), *arguments[6:])


def square(d):
    A = rng.normal(size=(d, d))
    return A @ A.T + np.eye(d)


def learned(d):
    z = rng.normal(size=d)
    P = square(d)
    G = rng.normal(size=4 * d) / 9
    diagonal = P.diagonal().copy()
    along = G[: 3 * d].reshape(3, d) @ z
    return [
        G,
        np.zeros(12),
        3,
        z,
        P @ z,
        rng.normal(size=3),
        1.0,
        along,
        diagonal,
        diagonal.max(),
    ]


def arow(W, S, Z, y, F, u):
    none = np.zeros((0, 0, 0))
    one = np.zeros(1, np.int64)
    experts.passes((W, S, one, 3, 1.0, u), Z, y, np.empty(0), F, none)


def spread(d, K=4, B=6):
    rows_ = rng.normal(size=(B, 1, d))
    labels = rng.integers(0, K, B)
    return [np.zeros((1, K, d)), square(d)[None], rows_, labels, np.zeros((B, 1, K)), np.zeros(d)]


def symmetric_rows(P, Z, out):
    rows.symmetric_rows(P, Z, len(Z), 0, out)


def rows_times(X, M, out):
    rows.rows_times(X, len(X), 0, M, out, 0)


def rows_dots(X, L, out):
    rows.rows_dots(X, len(X), L, out)


CASES = {
    f"{loop.__name__} {d}": (loop, make(d))
    for d in (3, 4, 7, 16, 33)
    for loop, make in (
        (mix_row, lambda d: mixed(d, min(d, 9))),
        (ridge._newton, lambda d: newton(d, min(d, 9))),
        (ridge.learn_row, learned),
        (symmetric_rows, lambda d: [square(d), rng.normal(size=(3, d)), np.zeros((3, d))]),
        (
            rows_times,
            lambda d: [rng.normal(size=(3, d)), rng.normal(size=(d, 5)), np.zeros((3, 5))],
        ),
        (rows_dots, lambda d: [rng.normal(size=(3, d)), rng.normal(size=(5, d)), np.zeros((3, 5))]),
        (rows.row_product, lambda d: [rng.normal(size=d), rng.normal(size=(d, 5)), np.zeros(5)]),
        (rows.product_row, lambda d: [rng.normal(size=(5, d)), rng.normal(size=d), np.zeros(5)]),
        (arow, spread),
        (
            ridge.row_products,
            lambda d: [np.ones((4, d), np.int16), np.ones(d, np.int16), np.zeros(4, np.int32)],
        ),
    )
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_bits_wherever_the_arrays_lie(case):
    loop, arguments = CASES[case]
    places = np.random.default_rng(4)
    seen = set()
    heap = []
    for i in range(PLACES):
        found = scattered(arguments, places, heap) if i % 2 else laid_out(arguments, places)
        loop(*found)
        seen.add(b"".join(each.tobytes() for each in found if isinstance(each, np.ndarray)))
    assert len(seen) == 1, f"{len(seen)} results, by where the arrays lie"


@pytest.mark.parametrize("method", METHODS)
def test_the_same_stream_again(method):
    """Each time among other arrays."""
    kept = []
    found = set()
    sizes = np.random.default_rng(0)
    for _ in range(6):
        task = make_task(7, n=2, m=9, stream=120)
        kept.append([np.empty(int(size)) for size in sizes.integers(1, 3000, 20)])
        clf = OnlineTransferClassifier(method).fit_domains(task.sources, task.warmup)
        clf.predict_then_learn(task.X[:60], task.y[:60])
        for x, y in zip(task.X[60:], task.y[60:], strict=True):
            clf.learn_one(x, y)
        found.add(clf.to_bytes())
    assert len(found) == 1
