"""Laws of the local heads: exact in blocks, bounded, and what they keep is what stands for most."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, seeds

from hedgerow import OnlineTransferClassifier
from hedgerow.kernels import SCALE
from hedgerow.kernels.ridge import TRUST, row_products, source_products
from hedgerow.ridge.near import chosen, medoids, whole
from hedgerow.ridge.plan import POOL, TARGET_ROWS


@given(seeds, st.integers(1, 60), st.integers(1, 300))
@law(20)
def test_products_of_whole_numbers_are_exact(seed, n, d):
    rng = np.random.default_rng(seed)
    S = whole(rng.normal(size=(n, d)))
    Q = whole(np.abs(rng.normal(size=(3, d))) ** rng.integers(1, 9))
    S[0] = Q[0]  # as large as a sum can be
    exact = Q.astype(np.int64) @ S.astype(np.int64).T
    of_sources = np.empty((3, n), np.int32)
    source_products(np.ascontiguousarray(S.T), Q, 3, of_sources)
    np.testing.assert_array_equal(of_sources, exact)
    alone = np.empty(n, np.int32)
    row_products(S, Q[0], alone)
    np.testing.assert_array_equal(alone, exact[0])
    assert abs(exact).max() < 2**24


def local(clf):
    """Which experts are local heads."""
    return [i for i, name in enumerate(clf.expert_names_) if name.startswith("near")]


@given(seeds, st.integers(2, 60), st.integers(1, 12), st.integers(1, 3))
@law(10)
def test_any_cut_into_blocks_gives_the_same_scores(seed, B, room, sources):
    """More rows than room: the oldest are forgotten, also within a block."""
    task = make_task(seed, n=sources, m=6, stream=2 * B, missing=0.3)
    one = fitted(task, "hedgerow")
    many = fitted(task, "hedgerow")
    for clf in (one, many):
        plan = replace(clf.learner_.plan, kept=room)
        clf.learner_ = type(clf.learner_)(plan, clf.constants_, clf.learner_.stored())
    for begin in (0, B):
        many.predict_then_learn(task.X[begin : begin + B], task.y[begin : begin + B])
    for x, label in zip(task.X, task.y, strict=True):
        one.learn_one(x, label)
    a, b = (clf.learner_.expert_scores(task.X)[:, local(clf)] for clf in (one, many))
    np.testing.assert_array_equal(a, b)
    state, other = (clf.learner_.stored() for clf in (one, many))
    assert len(state["labels"]) == min(room, one.seen_)
    for name in state:
        np.testing.assert_array_equal(state[name], other[name], err_msg=name)


def test_scores_are_the_share_of_each_class_in_the_votes(rng):
    task = make_task(3, n=2, m=6, stream=40)
    clf = fitted(task, "hedgerow")
    clf.partial_fit(task.X[:30], task.y[:30])
    learner = clf.learner_
    row = task.X[30:31]
    K = learner.n_classes
    (settings,) = learner.plan.near
    fixed = learner.constants
    kept = learner.stored()
    g = settings.sharpness
    q = whole(learner.pre.apply(row))[0].astype(float)

    def vote(rows):
        return np.exp(g * (rows.astype(float) @ q / SCALE**2 - 1))

    votes = fixed["near.weight"] * vote(fixed["near.rows"].T)
    past = np.bincount(kept["labels"], vote(kept["rows"]), K)
    own = [
        np.bincount(fixed["near.y"][a:b], votes[a:b], K) for a, b in pairwise(fixed["near.starts"])
    ]
    expected = []
    for heard in (own[0] + own[1], *own):
        total = past + TRUST * heard
        expected.append(total / total.sum() - 1 / K)
    np.testing.assert_allclose(learner.expert_scores(row)[0, local(clf)], expected, atol=1e-7)


def test_a_row_seen_before_is_known_again():
    """Labels that no regression can learn: each row of the stream comes twice, the second time it is known."""
    rng = np.random.default_rng(0)
    task = make_task(2, n=2, m=40, rows=60, stream=150)
    y = rng.permutation(task.y)
    clf = fitted(task, "hedgerow")
    first = (clf.predict_then_learn(task.X, y) != y).mean()
    near = [i for i in local(clf) if clf.expert_names_[i].startswith("near input")]
    votes = clf.learner_.expert_scores(task.X)[:, near].argmax(axis=2)
    codes = np.searchsorted(clf.classes_, y)
    assert first > 0.4
    assert (votes != codes[:, None]).mean() < 0.05


@given(seeds, st.integers(1, 40))
@law(20)
def test_kept_rows_are_shared_equally_and_stand_for_all(seed, cap):
    rng = np.random.default_rng(seed)
    sources = [rng.normal(size=(n, 4)) for n in (50, 8)]
    codes = [rng.integers(0, 2, len(x)) for x in sources]
    weights = [None, rng.uniform(0, 2, 8)]
    kept, weight = chosen(sources, codes, weights, cap, np.random.default_rng(0))
    assert len(kept) == min(cap, 50 + int((weights[1] > 0).sum()))
    assert len(set(kept.tolist())) == len(kept)
    assert (weight > 0).all()
    groups = [(int(row >= 50), int(np.concatenate(codes)[row])) for row in kept]
    if cap >= 4:  # every class of every source has its share, or all of its rows
        for group in {(0, 0), (0, 1), (1, 0), (1, 1)}:
            there = int((codes[group[0]] == group[1]).sum())
            assert groups.count(group) >= min(there, cap // 4)


def test_medoids_are_near_the_centres_of_what_they_stand_for():
    rows = np.concatenate(
        [
            np.random.default_rng(0).normal(c, 0.1, size=(n, 3))
            for c, n in ((0, 30), (5, 10), (-5, 3))
        ]
    )
    order, counts = medoids(rows, np.ones(43), 3)
    assert sorted(counts.tolist()) == [3.0, 10.0, 30.0]
    assert order[0] < 30 <= order[1] < 40 <= order[2]
    np.testing.assert_allclose(rows[order], np.array([[0.0], [5.0], [-5.0]]) * np.ones(3), atol=0.3)


def test_a_stream_without_end_takes_no_more_memory():
    task = make_task(4, m=9, stream=700)
    y = np.where(np.random.default_rng(0).random(700) < 0.3, None, task.y)
    clf = OnlineTransferClassifier().fit_domains(task.sources, task.warmup)
    clf.partial_fit(task.X, y)
    for _ in range(4):
        clf.partial_fit(task.X, y)
    state = clf.learner_.stored()
    assert len(state["labels"]) == TARGET_ROWS
    pooled = [name for name in state if name.endswith(".labels")]
    assert pooled
    assert all(len(state[name]) <= POOL for name in pooled)
    filled = len(clf.to_bytes())
    clf.partial_fit(task.X, y)
    assert len(clf.to_bytes()) <= filled + 4096  # pending rows come and go


def test_a_source_of_which_no_row_counts_has_a_head_all_the_same():
    task = make_task(5, n=3, m=12, rows=40, stream=30)
    X = np.concatenate([source.X for source in task.sources])
    y = np.concatenate([source.y for source in task.sources])
    domain = np.repeat(np.arange(3), [len(source) for source in task.sources])
    weight = np.where(domain == 2, 0.0, 1.0)
    weight[-1] = 1e-6  # of the last one only this row
    clf = OnlineTransferClassifier().fit(X, y, sample_domain=domain, sample_weight=weight)
    assert len(clf.expert_names_) == len(clf.weights_)
    assert (clf.predict_then_learn(task.X, task.y) == task.y).mean() > 0.5
