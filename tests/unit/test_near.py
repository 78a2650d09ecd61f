"""Laws of the local heads: exact in blocks, bounded, and what they keep is what stands for most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, seeds

from hedgerow import OnlineTransferClassifier
from hedgerow.kernels import SCALE
from hedgerow.kernels.ridge import MANY, TRUST, inner_products, row_products
from hedgerow.ridge.near import chosen, medoids, whole
from hedgerow.ridge.plan import SIZES


@given(seeds, st.integers(1, 60), st.integers(1, 300))
@law(20)
def test_sums_of_whole_numbers_are_exact_by_the_blas_too(seed, n, d):
    rng = np.random.default_rng(seed)
    S, Q = whole(rng.normal(size=(n, d))), whole(np.abs(rng.normal(size=(MANY, d))) ** rng.integers(1, 9))
    S[0] = Q[0]  # as large as a sum can be
    alone = np.empty((MANY, n), np.float32)
    for q, out in zip(Q, alone, strict=True):
        row_products(S, q, out)
    exact = Q.astype(np.int64) @ S.astype(np.int64).T
    np.testing.assert_array_equal(alone.astype(np.int64), exact)
    np.testing.assert_array_equal(inner_products(S, Q), alone)
    assert abs(exact).max() < 2**24


def local(clf):
    """Which experts are local heads."""
    return [i for i, name in enumerate(clf.expert_names_) if name.startswith("near")]


@given(seeds, st.integers(2, 60), st.integers(1, 12), st.integers(1, 3))
@law(10)
def test_any_cut_into_blocks_gives_the_same_scores(seed, B, room, sources):
    """More rows than room: the oldest are forgotten, also within a block."""
    task = make_task(seed, n=sources, m=6, stream=2 * B, missing=0.3)
    one, many = fitted(task, "hedgerow"), fitted(task, "hedgerow")
    for clf in (one, many):
        plan = replace(clf.learner_.plan, kept=room)
        clf.learner_ = type(clf.learner_)(plan, clf.constants_, clf.learner_.stored())
    for begin in (0, B):
        many.partial_fit(task.X[begin : begin + B], task.y[begin : begin + B])
    for x, label in zip(task.X, task.y, strict=True):
        one.learn_one(x, label)
    a, b = (clf.learner_.expert_scores(task.X)[:, local(clf)] for clf in (one, many))
    np.testing.assert_allclose(a, b, atol=1e-12)
    assert one.learner_.near.at[0] == many.learner_.near.at[0] == min(room, one.seen_)
    for name, array in one.learner_.near.arrays().items():
        np.testing.assert_array_equal(array, many.learner_.near.arrays()[name])


def test_scores_are_the_share_of_each_class_in_the_votes(rng):
    task = make_task(3, n=2, m=6, stream=40)
    clf = fitted(task, "hedgerow")
    clf.partial_fit(task.X[:30], task.y[:30])
    learner, row = clf.learner_, task.X[30:31]
    near, K = learner.near, learner.n_classes
    _, W = learner._maps(learner.pre.apply(row))
    expected = []
    for settings, rows, kept, columns in zip(near.settings, near.sources, near.kept, near.columns, strict=True):
        q, g = W[0, columns].astype(float), settings.sharpness
        votes = near.weight * np.exp(g * (rows.astype(float) @ q / SCALE**2 - 1))
        past = np.bincount(near.labels[:30], np.exp(g * (kept[:30].astype(float) @ q / SCALE**2 - 1)), K)
        own = [np.bincount(near.y, votes * (near.domain == s), K) for s in range(2)]
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
        [np.random.default_rng(0).normal(c, 0.1, size=(n, 3)) for c, n in ((0, 30), (5, 10), (-5, 3))]
    )
    order, counts = medoids(rows, np.ones(43), 3)
    assert sorted(counts.tolist()) == [3.0, 10.0, 30.0]
    assert order[0] < 30 <= order[1] < 40 <= order[2]
    np.testing.assert_allclose(rows[order], np.array([[0.0], [5.0], [-5.0]]) * np.ones(3), atol=0.3)


@pytest.mark.parametrize("size", SIZES)
def test_a_stream_without_end_takes_no_more_memory(size):
    task = make_task(4, m=9, stream=700)
    y = np.where(np.random.default_rng(0).random(700) < 0.3, None, task.y)
    clf = OnlineTransferClassifier(size=size).fit_domains(task.sources, task.warmup)
    clf.partial_fit(task.X, y)
    bound = SIZES[size]
    for _ in range(4):
        clf.partial_fit(task.X, y)
    state = clf.learner_.stored()
    assert len(state["near.y"]) == bound.target_rows
    pooled = [name for name in state if name.endswith(".labels")]
    assert pooled
    assert all(len(state[name]) <= bound.pool for name in pooled)
    filled = len(clf.to_bytes())
    clf.partial_fit(task.X, y)
    assert len(clf.to_bytes()) <= filled + 4096  # pending rows come and go


def test_the_small_form_is_small_and_refused_where_it_is_not_read():
    task = make_task(1, n=3, m=250, rows=200, stream=60)
    full, small = (
        OnlineTransferClassifier(size=size).fit_domains(task.sources, task.warmup) for size in (None, "small")
    )
    assert len(small.to_bytes()) < len(full.to_bytes()) / 3
    wrong = [(clf.predict_then_learn(task.X, task.y) != task.y).mean() for clf in (full, small)]
    assert wrong[1] <= wrong[0] + 0.1
    again = OnlineTransferClassifier.from_bytes(small.to_bytes())
    np.testing.assert_array_equal(again.predict_proba(task.X), small.predict_proba(task.X))
    with pytest.raises(ValueError, match="unknown size 'tiny'"):
        OnlineTransferClassifier(size="tiny").fit_domains(task.sources, task.warmup)
    with pytest.raises(ValueError, match="size='small': method 'oddm' does not read it"):
        OnlineTransferClassifier("oddm", size="small").fit_domains(task.sources, task.warmup)


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
