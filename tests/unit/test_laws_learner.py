"""Laws of whole methods: one by one = any blocks, save-load-continue = continue, float32 stays, predicting is pure."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import (
    METHODS,
    PAPER,
    STEPS,
    as_dense,
    as_table,
    assert_close_state,
    assert_same_state,
    fitted,
    law,
    make_task,
    one_by_one,
    seeds,
)

from hedgerow import OnlineTransferClassifier, PaperOptions
from hedgerow.align import BDA, CORAL, JDA, TCA, Identity
from hedgerow.core.errors import InputError
from hedgerow.learner import BLOCK


def chopped(clf, X, y, seed):
    """The stream in blocks of random lengths, some of them row by row."""
    rng = np.random.default_rng(seed)
    start = 0
    out = []
    while start < len(y):
        end = start + int(rng.integers(1, 30))
        learn = one_by_one if rng.random() < 0.3 else type(clf).predict_then_learn
        out.append(learn(clf, X[start:end], y[start:end]))
        start = end
    return np.concatenate(out)


def assert_step_is_run(clf, X, y, seed, tolerance=1e-9):
    steps, run, whole = (copy.deepcopy(clf) for _ in range(3))
    expected = one_by_one(steps, X, y)
    np.testing.assert_array_equal(chopped(run, X, y, seed), expected)
    np.testing.assert_array_equal(whole.predict_then_learn(X, y), expected)
    assert_close_state(run.learner_.arrays(), steps.learner_.arrays(), tolerance)
    assert_close_state(whole.learner_.arrays(), steps.learner_.arrays(), tolerance)
    np.testing.assert_array_equal(run.classes_, steps.classes_)


options = st.fixed_dictionaries(
    {
        "refresh_every": st.sampled_from([1, 3, 10]),
        "unseen": st.sampled_from(["zero", "skip", "shrink"]),
        "projected": st.sampled_from(["unit", "plain"]),
        "source_pass": st.sampled_from(["last", "average"]),
        "beta": st.sampled_from([None, 0.5, 0.9]),
    }
)


@pytest.mark.parametrize("method", METHODS)
@given(
    seeds,
    options,
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([0, 2]),
    st.integers(0, 3),
)
@law(12)
def test_one_by_one_is_any_blocks(method, seed, chosen, sparse, missing, new_classes, n):
    task = make_task(seed, n=max(n, 1), sparse=sparse, missing=missing, new_classes=new_classes)
    assert_step_is_run(fitted(task, method, **chosen), task.X, task.y, seed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_one_by_one_is_any_blocks_where_sources_know_one_class(method, missing):
    """Longer than what happens every sixteen rows, with that one class alone and then with a second."""
    task = make_task(1, K=1, missing=missing, new_classes=1, stream=90)
    labels = np.array(
        [label if label is None or t >= 40 else "c0" for t, label in enumerate(task.y)],
        dtype=object,
    )
    assert_step_is_run(fitted(task, method), task.X, labels, 1)


@pytest.mark.parametrize(
    "steps",
    [(), *((step,) for step in STEPS), ("signed-sqrt", "zscore", "unit"), ("centre", "unit")],
)
@pytest.mark.parametrize("method", ["homotlms", "oddm"])
@given(seeds, st.booleans(), st.sampled_from([0, 15]))
@law(5)
def test_one_by_one_is_any_blocks_with_every_preprocessing(method, steps, seed, sparse, warmup):
    task = make_task(seed, sparse=sparse, missing=0.2, warmup=warmup)
    assert_step_is_run(
        fitted(task, method, preprocess=steps, refresh_every=7), task.X, task.y, seed, 1e-7
    )


@pytest.mark.parametrize("mixer", [{"mixer": "loss"}, {"mixer": "log-loss"}, {"combine": "vote"}])
@given(seeds)
@law(8)
def test_one_by_one_is_any_blocks_with_every_mixer(mixer, seed):
    task = make_task(seed, missing=0.2, new_classes=1)
    assert_step_is_run(fitted(task, "oddm", refresh_every=5, **mixer), task.X, task.y, seed)


@pytest.mark.parametrize(
    "aligner",
    [Identity(), TCA(dim=3), BDA(dim=3), CORAL(), JDA(dim=4)],
    ids=lambda a: type(a).__name__,
)
def test_one_by_one_is_any_blocks_with_every_aligner(aligner):
    task = make_task(5, missing=0.2, new_classes=1)
    for method in ("oddm", "oddm-fixed", "homotlms", "paio"):
        assert_step_is_run(
            fitted(task, method, aligner=aligner, refresh_every=5), task.X, task.y, 1
        )


@pytest.mark.parametrize("length", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_long_blocks(length):
    task = make_task(1, stream=length, missing=0.3)
    for method in ("pa", "homotl-1", "oddm"):
        assert_step_is_run(fitted(task, method, refresh_every=10_000), task.X, task.y, 2)


@pytest.mark.parametrize("method", METHODS)
@given(seeds, st.booleans(), st.integers(0, 50))
@law(6)
def test_save_load_continue_is_continue_bit_for_bit(tmp_path_factory, method, seed, sparse, cut):
    task = make_task(seed, sparse=sparse, missing=0.2, new_classes=1, stream=80)
    clf = fitted(task, method, refresh_every=7)
    clf.predict_then_learn(task.X[:cut], task.y[:cut])
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    clf.save(path)
    loaded = OnlineTransferClassifier.load(path)
    assert_same_state(loaded.learner_.arrays(), clf.learner_.arrays())
    assert loaded.learner_.plan == clf.learner_.plan
    np.testing.assert_array_equal(
        loaded.predict_then_learn(task.X[cut:], task.y[cut:]),
        clf.predict_then_learn(task.X[cut:], task.y[cut:]),
    )
    assert_same_state(loaded.learner_.arrays(), clf.learner_.arrays())
    np.testing.assert_array_equal(loaded.classes_, clf.classes_)
    assert loaded.classes_.dtype == clf.classes_.dtype


@pytest.mark.parametrize("method", METHODS)
def test_predict_agrees_with_predict_one_and_with_the_probabilities(method):
    task = make_task(4, K=4)
    clf = fitted(task, method)
    clf.partial_fit(task.X[:30], task.y[:30])
    predictions = clf.predict(task.X)
    assert [clf.predict_one(x) for x in task.X] == predictions.tolist()
    p = clf.predict_proba(task.X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.classes_[p.argmax(axis=1)], predictions)
    one = clf.predict_proba_one(task.X[0])
    np.testing.assert_allclose([one[label] for label in clf.classes_], p[0], atol=1e-12)


@pytest.mark.parametrize("given_as", ["option", "data"])
@pytest.mark.parametrize("steps", ["none", "unit", "zscore+unit"])
@pytest.mark.parametrize("aligner", [None, "coral", "tca"])
@pytest.mark.parametrize("method", PAPER)
def test_float32_is_kept_end_to_end(method, aligner, steps, given_as):
    task = make_task(2, dtype="float32" if given_as == "data" else "float64", new_classes=1)
    clf = fitted(
        task,
        method,
        dtype="float32" if given_as == "option" else None,
        preprocess=steps,
        aligner=aligner,
    )
    twin = copy.deepcopy(clf)
    halved = task.X.astype(np.float32)
    np.testing.assert_array_equal(
        clf.decision_function(halved.astype(np.float64)), clf.decision_function(halved)
    )
    np.testing.assert_array_equal(
        clf.decision_function(task.X.astype(np.float64)), clf.decision_function(halved)
    )
    np.testing.assert_array_equal(
        one_by_one(twin, task.X.astype(np.float64), task.y), clf.predict_then_learn(task.X, task.y)
    )
    for name in ("W", "A"):
        if name in clf.learner_.arrays():
            assert clf.learner_.state[name].dtype == np.float32, name
    for array in clf.learner_.arrays().values():
        assert np.isfinite(array).all()


def test_domains_of_both_precisions_meet_in_the_higher():
    a = make_task(0, dtype="float32")
    b = make_task(0)
    task = b._replace(sources=[a.sources[0], b.sources[1]])
    clf = fitted(task, "homotlms")
    assert clf.learner_.W.dtype == np.float64


@pytest.mark.parametrize("method", METHODS)
def test_sparse_rows_give_what_dense_rows_give(method):
    task = make_task(6, sparse=True)
    dense = as_dense(task)
    for steps in ("none", "row-minmax+unit", "zscore+unit", "signed-sqrt"):
        sparse = fitted(task, method, preprocess=steps, refresh_every=10, eigenvectors="unit")
        plain = fitted(dense, method, preprocess=steps, refresh_every=10, eigenvectors="unit")
        np.testing.assert_array_equal(
            sparse.predict_then_learn(task.X, task.y), plain.predict_then_learn(dense.X, task.y)
        )
        np.testing.assert_allclose(sparse.weights_, plain.weights_, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_the_callers_arrays_are_never_changed(method):
    task = make_task(8, new_classes=1)
    X, y, domain = as_table(task)
    arrays = [X, y, domain, task.X, task.y]
    copies = [a.copy() for a in arrays]
    for a in arrays:
        a.setflags(write=False)
    clf = OnlineTransferClassifier(method, preprocess=()).fit(X, y, sample_domain=domain)
    clf.predict_then_learn(task.X, task.y)
    clf.predict(np.asfortranarray(X)[::2])
    for array, original in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, original)


@pytest.mark.parametrize("mixer", ["hedge", "loss", "log-loss"])
def test_a_new_class_costs_every_expert_what_one_that_nobody_knew_costs(mixer):
    task = make_task(9)
    clf = fitted(task, "oddm", mixer=mixer).partial_fit(task.X[:20], task.y[:20])
    F = clf.learner_.expert_scores(task.X[20:21])
    before = clf.learner_.state["expert_loss"].copy()
    scores = clf.learner_.scores(task.X[20:21])
    clf.learn_one(task.X[20], "new")
    loss = clf.learner_.plan.mixer.losses(F, np.array([3]))[0]
    np.testing.assert_allclose(clf.learner_.state["expert_loss"] - before, loss, atol=1e-12)
    twin = fitted(task, "oddm", mixer=mixer).partial_fit(task.X[:20], task.y[:20]).learner_
    twin.grow(4)
    np.testing.assert_allclose(
        twin.run(task.X[20:21], np.array([3]), known=3).scores, scores, atol=1e-12
    )


def test_a_copy_through_joblib_keeps_the_running_statistics_with_the_state(tmp_path):
    import joblib

    task = make_task(1)
    clf = fitted(task, "homotlms", preprocess="zscore")
    joblib.dump(clf, tmp_path / "m.joblib")
    copied = joblib.load(tmp_path / "m.joblib")
    for c in (clf, copied):
        c.partial_fit(task.X, task.y)
    assert_same_state(copied.learner_.arrays(), clf.learner_.arrays())
    assert copied.learner_.state["pre.0.n"] is copied.learner_.pre.arrays()[1]["pre.0.n"]


@pytest.mark.parametrize("method", ["hedgerow", "hedgerow-linear"])
def test_our_own_learner_computes_in_doubles_and_says_so(method):
    task = make_task(2, dtype="float32")
    with pytest.raises(
        InputError, match=r"dtype='float32': method .* does not read it.*methods that do: pa, "
    ):
        OnlineTransferClassifier(method, options=PaperOptions(dtype="float32")).fit_domains(
            task.sources, task.warmup
        )
    clf = fitted(task, method)
    clf.partial_fit(task.X, task.y)
    rounded = (".U", ".waiting", ".leverage", "rows")  # rows and what is known of them, never sums
    for name, array in clf.learner_.arrays().items():
        assert array.dtype in (np.float64, np.int64) or name.endswith(rounded), name
