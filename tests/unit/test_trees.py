"""Trees as plain arrays: equal to scikit-learn's predictions, loops equal to their NumPy twins."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.core.source_rows import InMemory, Part
from hedgerow.kernels import trees as loops
from hedgerow.ridge import plain
from hedgerow.ridge import trees as fitting


def make(seed=0, K=3, sources=2, rows=150):
    """Numbers, a column of gaps only in the first source, a hashed category, a one-hot category; labels that follow."""
    rng = np.random.default_rng(seed)
    spans = [(0, 1), (1, 1), (2, 1), (3, 4), (7, 3)]
    parts = []
    for i in range(sources):
        X = np.zeros((rows, 10))
        X[:, :3] = rng.normal(size=(rows, 3)) * [1, 1e6, 1e-3]
        X[rng.random((rows, 10)) < 0.1] = np.nan
        if i == 0:
            X[:, 2] = np.nan
        X[:, 3:] = 0
        at = rng.integers(0, 4, rows)
        X[np.arange(rows), 3 + at] = rng.choice([-1.0, 1.0], rows)
        one = rng.integers(0, 4, rows)  # the last has no place: an unknown value
        known = one < 3
        X[np.flatnonzero(known), 7 + one[known]] = 1
        X[rng.random(rows) < 0.1, 3:7] = np.nan
        score = np.nan_to_num(X[:, 0]) + 0.5 * at + rng.normal(size=rows) * 0.3
        y = np.digitize(score, np.quantile(score, np.linspace(0, 1, K + 1)[1:-1]))
        parts.append(Part(X, y.astype(np.int64)))
    return parts, spans


def rows_of(parts):
    return [InMemory(part.X, part.codes, part.weight) for part in parts]


def even(y, sources=2):
    """Weights of sources of the same size, to the last digit as they are computed."""
    weight = np.full(len(y), 1 / (len(y) // sources))
    return weight / weight.mean()


@pytest.mark.parametrize("K", [2, 3, 5])
def test_boosting_sums_what_scikit_learn_sums(K):
    parts, spans = make(K=K)
    trees = fitting.trees_of(fitting.fit_trees(rows_of(parts), K, spans, seed=0))
    X = np.concatenate([part.X for part in parts])
    y = np.concatenate([part.codes for part in parts])
    columns = fitting.columns_of(trees._asdict(), X)
    model = HistGradientBoostingClassifier(
        learning_rate=0.1,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
        max_iter=60,
        max_leaf_nodes=15,
    ).fit(columns, y, sample_weight=even(y))
    raw = plain.boosted_raw(trees, columns)
    expected = model._raw_predict(columns)
    np.testing.assert_array_equal(raw[:, 0, 1:] if K == 2 else raw[:, 0], expected)
    p = np.exp(raw[:, 0]) / np.exp(raw[:, 0]).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, model.predict_proba(columns), rtol=1e-12)


def test_the_forest_finds_the_leaves_of_scikit_learn():
    parts, spans = make()
    trees = fitting.trees_of(fitting.fit_trees(rows_of(parts), 3, spans, seed=0))
    X = np.concatenate([part.X for part in parts])
    y = np.concatenate([part.codes for part in parts])
    columns = fitting.columns_of(trees._asdict(), X)
    model = RandomForestClassifier(50, min_samples_leaf=3, max_leaf_nodes=128, random_state=0)
    model.fit(columns, y, sample_weight=even(y))
    theirs = model.apply(columns)
    ours = plain.forest_leaves(trees, columns)
    for a, b in zip(
        theirs.T, ours.T, strict=True
    ):  # the same parts of the rows, under other numbers
        assert len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))
    shares = np.mean([trees.counts[leaf].sum(axis=1) for leaf in ours.T], axis=0)
    assert (shares.argmax(axis=1) == y).mean() > 0.7


def test_single_precision_of_the_forest():
    """A value between a threshold and its neighbour in single precision goes where scikit-learn sends it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1)) + 1e4
    part = Part(X, (X[:, 0] > 1e4).astype(np.int64))
    trees = fitting.trees_of(fitting.fit_trees(rows_of([part]), 2, [(0, 1)], seed=0))
    model = RandomForestClassifier(50, min_samples_leaf=3, max_leaf_nodes=128, random_state=0)
    model.fit(X, part.codes, sample_weight=even(part.codes, 1))
    thresholds = np.unique(
        np.concatenate([t.tree_.threshold[t.tree_.feature >= 0] for t in model.estimators_])
    )
    near = np.concatenate([thresholds + d for d in (-1e-4, -1e-9, 0, 1e-9, 1e-4)])[:, None]
    ours = plain.forest_leaves(trees, near)
    for a, b in zip(model.apply(near).T, ours.T, strict=True):
        assert len(set(zip(a, b, strict=True))) == len(set(a))


def tree_rows(trees, X, F, leaves):
    for x, f, row in zip(X, F, leaves, strict=True):
        loops.tree_row(trees, x, f, row, np.empty(len(trees.first) + trees.baseline.size))


@pytest.mark.parametrize(("K", "sources", "more"), [(2, 1, 0), (3, 2, 0), (4, 3, 2)])
def test_loops_are_their_twins(K, sources, more):
    parts, spans = make(K=K, sources=sources)
    trees = fitting.trees_of(fitting.fit_trees(rows_of(parts), K, spans, seed=1))
    X = np.concatenate([part.X for part in make(seed=5, K=K)[0]])
    X[0] = 0  # categories that nobody has
    X[1:3, :2] = [[1e100, -1e100], [-1e39, 1e39]]
    columns = fitting.columns_of(trees._asdict(), X)
    B = len(X)
    k = K + more
    F = np.empty((B, len(trees.baseline), k))
    leaves = np.empty((B, 50), np.int16)
    tree_rows(trees, X, F, leaves)
    raw = plain.boosted_raw(trees, columns)
    p = np.exp(raw - raw.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(
        F, plain.log_scores(p / p.sum(axis=-1, keepdims=True), k), atol=1e-12
    )
    np.testing.assert_array_equal(leaves, plain.forest_leaves(trees, columns))
    rng = np.random.default_rng(2)
    y = rng.integers(0, k, B)
    weight = rng.random(B)
    own = np.zeros((len(trees.counts), k))
    heads = sources + 1 if sources > 1 else 1
    by_counts = np.empty((heads, k))
    by_rows = np.empty((heads, k))
    none = (np.empty((0, 50), np.int16), y[:0], weight[:0], 0)
    work = np.empty(51 * k)
    for r in range(60):
        loops.leaf_scores(trees.counts, own, *none, leaves[r], by_counts, work)
        loops.leaf_scores(trees.counts, own[:0], leaves, y, weight, r, leaves[r], by_rows, work)
        np.testing.assert_array_equal(by_counts, by_rows)
        expected = plain.log_scores(plain.leaf_shares(trees, leaves[r].astype(int), own), k)
        np.testing.assert_allclose(by_counts, expected, atol=1e-12)
        np.add.at(own, (leaves[r].astype(int), y[r]), weight[r])


def test_a_source_without_some_classes():
    parts, spans = make(K=3)
    some = parts[1].codes != 2
    one = parts[0].codes == 1
    cut = [Part(parts[0].X[one], parts[0].codes[one]), Part(parts[1].X[some], parts[1].codes[some])]
    trees = fitting.trees_of(fitting.fit_trees(rows_of(cut), 3, spans, seed=0))
    F = np.empty((len(parts[0].X), 3, 3))
    leaves = np.empty((len(parts[0].X), 50), np.int16)
    tree_rows(trees, parts[0].X, F, leaves)
    one = np.log([1e-3, 1, 1e-3]) / 4
    np.testing.assert_allclose(F[:, 1], np.tile(one - one.mean(), (len(F), 1)))
    assert (F[:, 2, 2] < F[:, 2, :2].min(axis=1)).all()
    assert np.isfinite(F).all()


def test_codes_are_ordered_by_frequency_and_unknown_values_come_last():
    X = np.array([[0.0, 1, 0]] * 3 + [[1.0, 0, 0]] * 2 + [[0.0, 0, -1]])
    arrays = fitting.tree_columns([X], [(0, 3)])
    rows = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1], [0, 0, 0], [0, 0, 1], [np.nan] * 3])
    np.testing.assert_array_equal(fitting.columns_of(arrays, rows)[:, 0], [0, 1, 2, 3, 3, np.nan])


def test_weights_of_rows_count():
    parts, spans = make(sources=1)
    part = parts[0]
    twice = Part(np.concatenate([part.X, part.X]), np.concatenate([part.codes, part.codes]))
    weighted = Part(part.X, part.codes, np.full(len(part.codes), 2.0))
    a, b = (
        fitting.fit_trees(rows_of([each]), 3, spans, 0)["counts"].sum()
        for each in (twice, weighted)
    )
    assert a == b == 50 * 2 * len(part.codes)


# -- as heads of the learner ------------------------------------------------------------------------------------------


def table(seed, rows=120, K=3):
    """A table with a number that matters by its level, a category, gaps."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(0, 10, rows)
    kind = rng.choice(["a", "b", "c"], rows)
    y = ((level > 4).astype(int) + (kind == "c")) % K
    level[rng.random(rows) < 0.1] = np.nan
    return pd.DataFrame({"level": level, "kind": kind, "noise": rng.normal(size=rows)}), y


@cache
def stored(sources, **options):
    domains = [Domain(f"s{i}", *table(i)) for i in range(sources)]
    return (
        OnlineTransferClassifier(**options)
        .fit_domains(domains, Domain("t", table(8, 20)[0]))
        .to_bytes()
    )


def fitted(sources=2, **options):
    return OnlineTransferClassifier.from_bytes(stored(sources, **options))


def arrays_equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_trees_are_heads_and_are_asked_for_or_not():
    clf = fitted()
    assert [name for name in clf.weights_ if name.startswith(("boost", "leaves"))] == [
        f"{kind}: {of}" for kind in ("boost", "leaves") for of in ("all sources", "s0", "s1")
    ]
    X, y = table(9)
    explained = clf.explain_then_learn(X, y)
    assert explained.weights.shape == explained.votes.shape == (len(y), len(clf.weights_))
    assert (explained.labels != y).mean() < (
        fitted(trees=False).predict_then_learn(X, y) != y
    ).mean()
    assert not any("boost" in name for name in fitted(trees=False).weights_)
    assert len([name for name in fitted(1).weights_ if "boost" in name]) == 1
    with pytest.raises(InputError, match="trees=True: method 'hedgerow-linear' does not read it"):
        fitted(method="hedgerow-linear", trees=True)
    with pytest.raises(InputError, match="trees='yes'"):
        fitted(trees="yes")


def test_profiles_have_no_trees():
    rng = np.random.default_rng(0)
    pixels = rng.uniform(0, 16, (60, 64))
    y = np.arange(60) % 3
    numbers = rng.normal(size=(60, 5))
    for X, there in ((pixels, False), (numbers, True), (np.tile(numbers, 40), False)):
        clf = OnlineTransferClassifier().fit(X, y)
        assert any("boost" in name for name in clf.weights_) == there
    assert any(
        "boost" in name for name in OnlineTransferClassifier(trees=True).fit(pixels, y).weights_
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_every_label_is_counted_in_one_leaf_of_each_tree(weighted):
    X, y = table(9)
    clf = fitted()
    before = clf.learner_.trees.counts.sum()
    clf.partial_fit(X, [None] * len(y))
    assert clf.learner_.trees.counts.sum() == before
    weight = np.random.default_rng(1).random(len(y)) + 0.5 if weighted else np.ones(len(y))
    known = np.arange(len(y)) % 5 > 0
    clf.partial_fit(
        X, np.where(known, y.astype(object), None), sample_weight=weight if weighted else None
    )
    assert clf.learner_.trees.counts.sum() == pytest.approx(before + 50 * weight[known].sum())
    clf.partial_fit(X[:1], [7])  # a new class
    assert clf.learner_.trees.counts[:, 3].sum() == 50


def test_a_row_predicted_and_then_learned_is_the_row_that_trees_saw():
    """Rows of one direction are the same to the spaces behind unit length, and not to trees."""
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = (np.linalg.norm(X, axis=1) > 2).astype(int)
    a, b = (OnlineTransferClassifier(preprocess="unit", trees=True).fit(X, y) for _ in range(2))
    a.predict_one(3 * X[0])
    a.learn_one(X[0], 1)
    b.learn_one(X[0], 1)
    arrays_equal(a.learner_.arrays(), b.learner_.arrays())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("right", lambda a: np.where(a > 0, a + 100, a).astype(np.int16)),
        ("right", lambda a: np.zeros_like(a)),
        ("feature", lambda a: np.where(a >= 0, a + 50, a).astype(np.int16)),
        ("feature", lambda a: np.zeros_like(a)),
        ("threshold", lambda a: a + 0.5),
        ("threshold", lambda a: a + 1e5),
        ("first", lambda a: a + 50),
        ("width", lambda a: a + 50),
        ("place", lambda a: a + 50),
        ("starts", lambda a: a[::-1].copy()),
        ("head", lambda a: a + 9),
        ("label", lambda a: a + 9),
        ("counts", lambda a: -1 - a),
        ("at", lambda a: a + 10**6),
        ("at", lambda a: a[::-1].copy()),
        ("n", lambda a: -a),
    ],
)
def test_what_loops_could_not_walk_is_refused(name, change):
    clf = fitted()
    clf.partial_fit(*table(9, 30))
    learner = clf.learner_
    constants = dict(learner.constants)
    state = learner.stored()
    arrays = state if name in ("at", "n") else constants
    arrays[f"trees.{name}"] = change(arrays[f"trees.{name}"])
    sizes = {"K": 3, "m": clf.n_features_in_}
    learner.plan.layout().check(dict(learner.constants), learner.stored(), sizes)
    with pytest.raises(InputError, match="trees"):
        learner.plan.layout().check(constants, state, sizes)


def test_sources_of_many_rows_are_sampled():
    rng = np.random.default_rng(0)
    X = np.arange(40.0)[:, None]
    part = fitting.sampled(InMemory(X, np.arange(40) % 2, np.full(40, 2.0)), 10, rng)
    assert len(part.X) == 10
    assert part.weight.sum() == pytest.approx(80)
    assert fitting.sampled(InMemory(X, np.arange(40) % 2), 50, rng).weight is None


# -- levels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3])
def test_the_head_of_levels_is_a_logistic_regression_of_the_sources(K):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(40, 3)) * [1, 100, 0.1] + 7 for _ in range(2)]
    codes = [rng.integers(0, K, 40) for _ in range(2)]
    learner = (
        OnlineTransferClassifier()
        .fit_domains([Domain(*d) for d in zip("ab", parts, codes, strict=True)])
        .learner_
    )
    X = np.vstack(parts)
    y = np.concatenate(codes)
    scaler = StandardScaler().fit(X)
    p = (
        LogisticRegression(max_iter=200, tol=1e-3)
        .fit(scaler.transform(X), y)
        .predict_proba(scaler.transform(X))
    )
    scores = learner.expert_scores(X)[:, learner.expert_names.index("level: all sources")]
    np.testing.assert_allclose(softmax(4 * scores, axis=1), p, atol=1e-6)
    gap = learner.expert_scores(np.full((1, 3), np.nan))[
        0, learner.expert_names.index("level: all sources")
    ]
    assert np.isfinite(gap).all()


# -- before the first label -------------------------------------------------------------------------------------------


def numbers(seed, rows=90):
    """Columns of different units; the label follows from the second."""
    X = np.random.default_rng(seed).normal(size=(rows, 4)) * [1, 1000, 0.01, 5] + 20
    return X, (X[:, 1] > 20).astype(int) + (X[:, 1] > 700)


def test_heads_of_equal_weight_predict_well_before_the_first_label():
    domains = [Domain(f"s{i}", *numbers(i)) for i in range(3)]
    clf = OnlineTransferClassifier().fit_domains(domains, Domain("t", numbers(7, 20)[0]))
    assert clf.learner_.plan.steps == ("fill", "scale", "centre", "unit")
    weights = clf.weights_
    assert sum(weights.values()) == pytest.approx(1)
    assert len(set(np.round(list(weights.values())[:-1], 12))) == 1
    X, y = numbers(9)
    p = clf.predict_proba(X)[np.arange(len(y)), y]
    assert -np.log(p).mean() < np.log(3)
    wrong = (clf.predict_then_learn(X, y) != y).sum()
    assert wrong <= clf.bound_


def test_a_model_of_clean_numbers_takes_gaps_later():
    clf = OnlineTransferClassifier().fit(*numbers(0))
    X, y = numbers(1)
    clean = clf.predict_proba(X)
    X[::3, 0] = np.nan
    p = clf.predict_proba(X)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(np.delete(p, np.s_[::3], 0), np.delete(clean, np.s_[::3], 0))
    assert np.isfinite(clf.explain_then_learn(X, y).probabilities).all()
    row = X[0].copy()
    row[:] = np.nan
    assert clf.predict_one(row) in (0, 1, 2)
    with pytest.raises(InputError, match="infinity"):
        clf.predict(np.full((1, 4), np.inf))


def test_trees_of_more_columns_than_they_can_number_are_refused():
    X = np.zeros((8, 40_000))
    X[:, -1] = range(8)
    with pytest.raises(InputError, match="40000 numbers a row, and trees take at most 32767"):
        OnlineTransferClassifier(trees=True).fit_domains([Domain("a", X, ["x", "y"] * 4)])
