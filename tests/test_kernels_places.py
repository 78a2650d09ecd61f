"""A compiled loop gives the same bits wherever its arrays are in memory: recovery to the last bit depends on it."""

from __future__ import annotations

import numpy as np
import pytest
from laws import METHODS, make_task

from hedgerow import OnlineTransferClassifier
from hedgerow.kernels import ridge, rows
from hedgerow.learners.ridge import mixture

TIMES = 200


def placed(rng, arguments, memory):
    """The same arguments, their arrays close together in another order, with other gaps."""
    found, at = list(arguments), int(rng.integers(8))
    for i in rng.permutation(len(arguments)):
        array = arguments[i]
        if isinstance(array, np.ndarray) and array.dtype == np.float64:
            found[i] = memory[at : at + array.size].reshape(array.shape)
            found[i][...] = array
            at += array.size + int(rng.integers(6))
        elif isinstance(array, np.ndarray):
            found[i] = array.copy()
    return found


def results(loop, arguments):
    rng, memory, kept, found = np.random.default_rng(0), np.empty(2**16), [], set()
    for _ in range(TIMES):
        kept.append(np.empty(int(rng.integers(1, 200))))  # arrays that a loop makes for itself are elsewhere too
        given = placed(rng, arguments, memory)
        said = loop(*given)
        found.add(b"".join(a.tobytes() for a in given if isinstance(a, np.ndarray)) + repr(said).encode())
    return found


@pytest.mark.parametrize(("K", "heads", "B"), [(2, 1, 5), (4, 3, 12), (5, 17, 2), (10, 25, 3)])
def test_the_mixture(rng, K, heads, B):
    state, f = mixture.initial(heads, K), heads + 2
    F, y = rng.normal(size=(B, heads, K)), rng.integers(0, K, B)
    parts = [state[f"mix.{name}"] for name in ("log_w", "loss", "counts", "a", "H")]
    rest = [mixture.KEEP, mixture.FLOOR, mixture.MEMBERS, state["mix.members"], state["mix.pair"], 1.0]
    out = [np.zeros((B, K)), np.zeros((B, heads + 1))]
    assert len(results(ridge.mix_rows, [F, y, K, mixture.TEMPERATURES, *parts, *rest, *out])) == 1
    p = np.log(np.full(K, 1 / K))
    assert len(results(ridge._newton, [np.ones(f), 3 * np.eye(f), rng.normal(size=(f, K)), p, 1, 0.98, 0.3])) == 1


@pytest.mark.parametrize("d", [3, 8, 13, 37, 70])
def test_rows_and_regressions(rng, d):
    A, z = rng.normal(size=(d, d)), rng.normal(size=d)
    P = A @ A.T
    G, E = rng.normal(size=(4, d)), rng.normal(size=(4, 4))
    assert len(results(rows.symmetric_row, [P, z, np.zeros(d)])) == 1
    assert len(results(rows.row_product, [z, A, np.zeros(d)])) == 1
    assert len(results(rows.product_row, [A, z, np.zeros(d), 0])) == 1
    assert len(results(rows.unit_product, [z, A, np.zeros(d)])) == 1
    assert len(results(rows.low_rank_product, [z, A[:, :4].copy(), G, E, 3, np.zeros(4)])) == 1
    assert len(results(ridge.learn_row, [P, z, rng.normal(size=4), 0.7, G, E, 3, 9.0])) == 1


@pytest.mark.parametrize("method", METHODS)
def test_the_same_stream_again(method):
    """Each time among other arrays."""
    kept, found = [], set()
    rng = np.random.default_rng(0)
    for _ in range(6):
        task = make_task(7, n=2, m=9, stream=120)
        kept.append([np.empty(int(size)) for size in rng.integers(1, 3000, 20)])
        clf = OnlineTransferClassifier(method).fit_domains(task.sources, task.warmup)
        clf.predict_then_learn(task.X[:60], task.y[:60])
        for x, y in zip(task.X[60:], task.y[60:], strict=True):
            clf.learn_one(x, y)
        found.add(clf.to_bytes())
    assert len(found) == 1
