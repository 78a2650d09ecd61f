"""Laws of the pool: what it teaches can be taken out again, unlabelled rows join it, and nobody waits for ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, seeds

from hedgerow import OnlineTransferClassifier, load
from hedgerow.ridge.pool import CIRCLE, TURN, Pool
from hedgerow.ridge.regression import Regression, Targets


def ridge(Z, Y, w, lam=1.0):
    """Ridge regression of rows with weights, from zero."""
    d = Z.shape[1]
    P = np.linalg.inv(lam * np.eye(d) + (Z * w[:, None]).T @ Z)
    return P, P @ (Z * w[:, None]).T @ Y


@given(seeds, st.integers(1, 6))
@law(20)
def test_rows_can_be_taken_out_again(seed, n):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(12, 4))
    Y = rng.normal(size=(12, 3))
    w = np.where(np.arange(12) < n, 0.3, 1.0)
    P, M = ridge(Z, Y, w)
    regression = Regression(P, M)
    assert regression.update(Z[:n], Y[:n], 1 / 0.3, -1.0)
    expected = ridge(Z[n:], Y[n:], w[n:])
    np.testing.assert_allclose(np.triu(regression.P), np.triu(expected[0]), atol=1e-9)
    np.testing.assert_allclose(regression.M, expected[1], atol=1e-9)


def test_rows_that_were_never_learned_cannot_be_taken_out(rng):
    regression = Regression(10 * np.eye(3), np.zeros((3, 2)))
    assert not regression.update(rng.normal(size=(2, 3)), np.zeros((2, 2)), 1.0, -1.0)
    np.testing.assert_array_equal(regression.P, 10 * np.eye(3))


@given(seeds)
@law(15)
def test_a_label_is_what_would_be_said_without_the_row(seed):
    """The leave-one-out fit, less the bias, against a regression that never saw the row."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(9, 5))
    K = 3
    targets = Targets(None, [K], K)
    labels = rng.integers(0, K, (9, 1))
    w = np.full(9, 0.3)
    P, M = ridge(U, targets.of_labels(labels), w)
    state = Pool.empty(U, 1, K) | {"labels": labels.copy()}
    state["leverage"] = (0.3 * np.einsum("ij,jk,ik->i", U, P, U)).astype(np.float32)
    pool = Pool(targets, 0.3, np.ones(K), 100, state, U)
    expected = []
    for i in range(9):
        kept = np.arange(9) != i
        expected.append(U[i] @ ridge(U[kept], targets.of_labels(labels[kept]), w[kept])[1])
    regression = Regression(P.copy(), M.copy())
    rows = np.arange(1)
    pool._label(regression, rows)
    assert pool.labels[0, 0] == (expected[0] - pool.bias[0]).argmax()
    moved = ridge(U, targets.of_labels(pool.labels), w)[1]
    np.testing.assert_allclose(regression.M, moved, atol=1e-8)


def test_every_row_has_its_turn():
    task = make_task(3, n=2, m=6, warmup=40, stream=TURN * CIRCLE)
    clf = fitted(task, "hedgerow")
    pool = next(space.pool for space in clf.learner_.spaces if space.pool is not None)
    asked: list[int] = []
    label = pool._label
    pool._label = lambda regression, rows: (asked.extend(rows.tolist()), label(regression, rows))[1]
    clf.partial_fit(task.X, task.y)
    assert sorted(set(asked)) == list(range(len(pool.labels)))
    assert len(asked) < 2 * len(pool.labels)


@pytest.mark.parametrize("method", ["hedgerow", "hedgerow-linear"])
def test_a_row_without_a_label_is_used(method):
    task = make_task(6, n=2, m=8, warmup=10, stream=120)
    clf = fitted(task, method)
    still = fitted(task, method)
    clf.partial_fit(task.X[:100], np.full(100, None))
    assert (clf.seen_, clf.mistakes_) == (0, 0)
    assert not np.array_equal(clf.predict_proba(task.X[100:]), still.predict_proba(task.X[100:]))
    one_by_one = fitted(task, method)
    for x in task.X[:100]:
        one_by_one.learn_one(x, None)
    np.testing.assert_allclose(
        one_by_one.predict_proba(task.X), clf.predict_proba(task.X), atol=1e-9
    )
    if method == "hedgerow":
        pool = next(space.pool for space in clf.learner_.spaces if space.pool is not None)
        assert len(pool.labels) + len(pool.waiting) == 110


def test_rows_without_a_label_help_where_labels_are_rare():
    """Digits, nothing of the target known in advance, and of twenty labels one comes: a tenth fewer mistakes in all."""
    domains = load("digits")
    used = 0
    unused = 0
    for target, domain in domains.items():
        X = domain.X
        y = np.asarray(domain.y)
        labels = np.where(np.random.default_rng(1).random(len(y)) < 0.95, None, y)
        sources = [source for name, source in domains.items() if name != target]
        using, without = (OnlineTransferClassifier().fit_domains(sources) for _ in range(2))
        used += int((using.predict_then_learn(X, labels) != y).sum())
        for x, label, known in zip(X, y, labels, strict=True):
            unused += without.predict_one(x) != label
            if known is not None:
                without.learn_one(x, known)
    assert used < 0.9 * unused


def test_a_full_pool_forgets_the_oldest():
    task = make_task(9, n=2, m=6, warmup=20, stream=90)
    clf = fitted(task, "hedgerow")
    pool = next(space.pool for space in clf.learner_.spaces if space.pool is not None)
    pool.room = 30
    clf.partial_fit(task.X, np.full(90, None))
    assert len(pool.labels) == len(pool.U) == len(pool.h) == 30
    newest = clf.learner_.pre.apply(task.X[88 - len(pool.waiting) : 89 - len(pool.waiting)])
    space = next(space for space in clf.learner_.spaces if space.pool is pool)
    close = np.abs(pool.U - space.map(newest)).max(axis=1).min()
    assert close < 0.05  # the mean has moved a little since it came


def test_a_block_without_labels_follows_pending_rows():
    """Turns of the pool cut the block while regressions have pending rows, and no product with P was made."""
    domains = list(load("digits").values())
    clf = OnlineTransferClassifier().fit_domains(domains[:-1])
    X = np.asarray(domains[-1].X)[:40]
    y = np.asarray(domains[-1].y)[:40]
    other = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    labels = [*y[:5].tolist(), *[None] * 35]
    clf.predict_then_learn(X[:5], y[:5])
    clf.partial_fit(X[5:], labels[5:])
    for x, label in zip(X, labels, strict=True):
        other.learn_one(x, label)
    np.testing.assert_allclose(clf.predict_proba(X), other.predict_proba(X), atol=1e-9)
