"""Laws of projections that follow the labels: the low-rank form is the plain update, however the stream is cut."""

from __future__ import annotations

import itertools
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, projections, seeds
from support.refreshes import assert_same_moments, plainly, rules, setting

from bench import naive
from hedgerow import spaces as moving
from hedgerow.core.arrays import PAGE, on_large_pages
from hedgerow.spaces import MovingSpaces, Refresh


def in_blocks(A, sources, target, X, y, weight, rule, edges, settle=True):
    spaces = MovingSpaces(
        np.ascontiguousarray(A.transpose(1, 0, 2)), sources, deepcopy(target), rule
    )
    Z = []
    seen = 0
    for a, b in itertools.pairwise(edges):
        Z.append(spaces.learn(X[a:b], y[a:b], None if weight is None else weight[a:b], seen))
        seen += int((y[a:b] >= 0).sum())
        if settle:
            spaces.flush()
    spaces.flush()
    return np.concatenate(Z), spaces.A.transpose(1, 0, 2), spaces.target


cuts = st.one_of(
    st.lists(st.integers(0, 60), max_size=4).map(lambda inner: sorted({0, 60, *inner})),
    st.just(list(range(61))),
)


@given(seeds, rules, cuts, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0, 5]))
@law(100)
def test_windows_are_the_plain_update(seed, rule, edges, weighted, sparse, settle, warmup):
    A, sources, target, X, y, weight = setting(seed, warmup=warmup)
    Z, after, moments = plainly(
        A, sources, target, X, y, weight if weighted else np.ones(len(y)), rule
    )
    rows = sp.csr_array(np.where(np.abs(X) < 0.5, 0, X)) if sparse else X
    if sparse:
        Z, after, moments = plainly(
            A, sources, target, rows.toarray(), y, weight if weighted else np.ones(len(y)), rule
        )
    got = in_blocks(A, sources, target, rows, y, weight if weighted else None, rule, edges, settle)
    np.testing.assert_allclose(got[0], Z, atol=1e-8)
    np.testing.assert_allclose(got[1], after, atol=1e-8)
    assert_same_moments(got[2], moments)


def test_the_anchor_is_not_seen():
    task = make_task(2, stream=150, K=3)
    short = fitted(task, "oddm", refresh_every=1)
    long = fitted(task, "oddm", refresh_every=1)
    expected = long.predict_then_learn(task.X, task.y)
    before = moving.ANCHOR
    moving.ANCHOR = 3
    try:
        np.testing.assert_array_equal(short.predict_then_learn(task.X, task.y), expected)
    finally:
        moving.ANCHOR = before
    np.testing.assert_allclose(projections(short), projections(long), atol=1e-10)


@given(seeds, st.sampled_from([2, 5, 9]))
@law(10)
def test_oddm_is_the_naive_oddm(seed, every):
    task = make_task(seed, n=3, stream=60)
    clf = fitted(task, "oddm", refresh_every=every, horizon=60, reading="authors", preprocess=())
    codes = np.searchsorted(clf.classes_, task.y.astype(str))
    expected = naive.replay(clf.learner_, task.X, codes)
    np.testing.assert_array_equal(clf.learner_.run(task.X, codes).predictions, expected)


@given(seeds, rules, st.booleans())
@law(20)
def test_sums_that_fill_their_room_are_not_seen(seed, rule, sparse):
    """H and T take the class sums that are pending in the middle of a stream of single rows."""
    A, sources, target, X, y, weight = setting(seed)
    X = np.where(np.abs(X) < 0.5, 0, X)
    Z, after, moments = plainly(A, sources, target, X, y, weight, rule)
    before = moving.ROOM
    moving.ROOM = 4
    try:
        rows = sp.csr_array(X) if sparse else X
        got = in_blocks(A, sources, target, rows, y, weight, rule, range(61), settle=False)
    finally:
        moving.ROOM = before
    np.testing.assert_allclose(got[0], Z, atol=1e-8)
    np.testing.assert_allclose(got[1], after, atol=1e-8)
    assert_same_moments(got[2], moments)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_projection_through_the_parts_is_that_of_the_flushed_matrix(sparse):
    A, sources, target, X, y, _ = setting(3)
    spaces = MovingSpaces(
        np.ascontiguousarray(A.transpose(1, 0, 2)), sources, deepcopy(target), Refresh(every=5)
    )
    rows = sp.csr_array(np.where(np.abs(X) < 0.5, 0, X)) if sparse else X
    for _ in range(2):
        before = spaces.project(rows)
        spaces.flush()
        np.testing.assert_allclose(before, spaces.project(rows), atol=1e-10)
        spaces.learn(rows, y, None, 0)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("rows", [3, 600])
def test_large_pages_hold_what_any_array_holds(order, rows):
    array = on_large_pages((rows, 500), np.float64, order)
    assert array.shape == (rows, 500)
    assert array.flags.c_contiguous if order == "C" else array.flags.f_contiguous
    assert array.nbytes < PAGE // 2 or array.__array_interface__["data"][0] % PAGE == 0
    array[:] = np.arange(500)
    assert array.sum() == rows * 500 * 499 / 2
