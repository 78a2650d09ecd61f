"""Laws of the local heads: exact in blocks, bounded, and what they keep is what stands for most."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, seeds

from hedgerow import OnlineTransferClassifier
from hedgerow.kernels import SCALE
from hedgerow.kernels.near import MANY, products, row_products
from hedgerow.ridge.build import chosen, medoids
from hedgerow.ridge.near import TRUST, Near, NearSettings, whole
from hedgerow.ridge.plan import SIZES


def near_of(rng, n=40, d=6, K=3, room=9, sources=2):
    """Local heads over rows of some sources, in two spaces."""
    constants = {f"{i}.rows": whole(rng.normal(size=(n, d + i))) for i in range(2)}
    constants |= {"y": rng.integers(0, K, n), "domain": np.arange(n) % sources, "weight": rng.uniform(0.5, 4, n)}
    settings = [NearSettings("near input", -1, 60.0), NearSettings("near white", 0, 40.0)]
    return Near(settings, constants, Near.empty([d, d + 1]), room, sources + 1 if sources > 1 else 1)


def stream(rng, B, d=6, K=3):
    """Rows in both spaces, labels of which some are missing, weights."""
    Q = [whole(rng.normal(size=(B, d + i))) for i in range(2)]
    return Q, rng.integers(-1, K, B), rng.uniform(0.5, 2, B)


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
    np.testing.assert_array_equal(products(S, Q), alone)
    assert abs(exact).max() < 2**24


@given(seeds, st.integers(2, 40), st.integers(1, 12), st.integers(1, 3))
@law(25)
def test_any_cut_into_blocks_gives_the_same_bits(seed, B, room, sources):
    """More rows than room: the oldest are forgotten, also within a block."""
    rng = np.random.default_rng(seed)
    one, many = (near_of(np.random.default_rng(seed), room=room, sources=sources) for _ in range(2))
    Q, y, weight = stream(rng, B)
    together = many.run(Q, y, weight, 3)
    alone = []
    for t in range(B):
        row = [q[t : t + 1] for q in Q]
        said = one.say(row, 3)
        alone.append(one.run(row, y[t : t + 1], weight[t : t + 1], 3, said if t % 2 else None))
    np.testing.assert_array_equal(together, np.concatenate(alone))
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, many.arrays()[name])
    assert one.used == min(room, int((y >= 0).sum()))


def test_what_is_said_is_the_share_of_each_class_in_the_votes(rng):
    near = near_of(rng, room=50)
    Q, y, weight = stream(rng, 30)
    near.run(Q, y, weight, 3)
    row = [whole(rng.normal(size=(1, 6 + i))) for i in range(2)]
    said = near.say(row, 3)[0]
    expected = []
    for i, g in enumerate((60.0, 40.0)):
        votes = near.weight * np.exp(g * (near.sources[i].astype(float) @ row[i][0] / SCALE**2 - 1))
        past = np.zeros(3)
        for q, label, w in zip(Q[i], y, weight, strict=True):
            if label >= 0:
                past[label] += w * np.exp(g * (q.astype(float) @ row[i][0] / SCALE**2 - 1))
        own = [np.bincount(near.y, votes * (near.domain == s), 3) for s in range(2)]
        for v in (own[0] + own[1], *own):
            total = past + TRUST * v
            expected.append(total / total.sum() - 1 / 3)
    np.testing.assert_allclose(said, expected, atol=1e-7)


def test_a_row_seen_before_is_known_again():
    """Labels that no regression can learn: each row of the stream comes twice, the second time it is known."""
    rng = np.random.default_rng(0)
    task = make_task(2, n=2, m=40, rows=60, stream=150)
    y = rng.permutation(task.y)
    clf = fitted(task, "hedgerow")
    first = (clf.predict_then_learn(task.X, y) != y).mean()
    near = [i for i, name in enumerate(clf.expert_names_) if name.startswith("near input")]
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
    found = chosen(sources, codes, weights, cap, np.random.default_rng(0))
    assert len(found.rows) == min(cap, 50 + int((weights[1] > 0).sum()))
    assert len(set(found.rows.tolist())) == len(found.rows)
    assert (found.weight > 0).all()
    groups = [(int(row >= 50), int(np.concatenate(codes)[row])) for row in found.rows]
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
