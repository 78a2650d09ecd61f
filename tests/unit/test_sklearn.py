"""scikit-learn's verbs and river's verbs: its own checks, and what a user of either expects."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.laws import METHODS, PAPER, assert_same_state, classifier, fitted, make_task, state_of

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError

NOT_REPEATED = "a weight is no number of repetitions: it scales one step of a head, and the maps see each row once"


def weights_that_do_not_repeat(estimator):
    """The checks that a weight is so many copies of a row, in any order: no online learner's is.

    `pa` learns nothing from the rows of sources, whatever they weigh.
    """
    if estimator.method == "pa":
        return {}
    return {f"check_sample_weight_equivalence_on_{kind}_data": NOT_REPEATED for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn")  # its own cast of NaN in a check
@parametrize_with_checks(
    [OnlineTransferClassifier(), *(OnlineTransferClassifier(m) for m in METHODS if m != "hedgerow")],
    expected_failed_checks=weights_that_do_not_repeat,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def xy(seed=0, n=60, K=3, m=5):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % K)
    return rng.normal(size=(n, m)) + 3 * rng.normal(size=(K, m))[y], np.array(["ash", "birch", "cedar"])[y]


def test_pipeline_grid_search_clone_and_params():
    X, y = xy()
    pipe = make_pipeline(StandardScaler(), OnlineTransferClassifier("oddm"))
    grid = GridSearchCV(pipe, {"onlinetransferclassifier__dim": [1, 3], "onlinetransferclassifier__C": [0.1, 5]}, cv=2)
    assert grid.fit(X, y).best_score_ > 0.8
    assert cross_val_score(OnlineTransferClassifier("paio"), X, y, cv=3).mean() > 0.8
    clf = classifier("homotlms", lam=0.5, preprocess=("unit",), classes=["ash", "birch", "cedar"])
    twin = clone(clf)
    assert twin.get_params() == clf.get_params()
    assert twin.set_params(C=2.0, method="oddm").C == 2.0
    assert "method='homotlms'" in repr(clf)


def test_a_data_frame_and_its_names():
    X, y = xy()
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(5)])
    clf = OnlineTransferClassifier("oddm").fit(frame, pd.Series(y))
    assert clf.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(clf.predict(frame), OnlineTransferClassifier("oddm").fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[frame.columns[::-1]])
    row = dict(frame.iloc[0])
    assert clf.predict_one(row) == clf.predict_one(X[0]) == clf.predict(frame[:1])[0]
    assert clf.predict_one({**row, "unused": 1.0}) == clf.predict_one(X[0])
    clf.learn_one(row, "ash")
    with pytest.raises(InputError, match=r"missing \['f2'\], unexpected none"):
        clf.predict_one({name: v for name, v in row.items() if name != "f2"})


@pytest.mark.parametrize(
    "names",
    [
        ["ash", "birch", "cedar"],
        [10, 20, 30],
        [-1, 0, 1],
        [0.0, 1.0, 2.0],
        [(1, "a"), (1, "b"), (2, "a")],
        [b"a", b"b", b"c"],
        [np.str_("a"), np.str_("bb"), np.str_("ccc")],
    ],
    ids=str,
)
@pytest.mark.parametrize("as_objects", [False, True])
def test_labels_of_any_kind(names, as_objects):
    X, y = xy()
    order = {"ash": 0, "birch": 1, "cedar": 2}
    labels = [names[order[label]] for label in y]
    if as_objects:
        items, labels = labels, np.empty(len(labels), dtype=object)
        labels[:] = items
    clf = OnlineTransferClassifier("homotlms").fit(X[:30], labels[:30])
    predictions = clf.predict_then_learn(X[30:], labels[30:])
    assert clf.classes_.tolist() == names
    assert set(predictions.tolist()) <= set(names)
    assert clf.predict_one(X[0]) in names
    assert set(clf.predict_proba_one(X[0])) == set(names)


def test_two_classes_of_bools():
    X, y = xy()
    clf = OnlineTransferClassifier("oddm").fit(X, y == "ash")
    assert clf.predict(X).dtype == bool
    assert clf.decision_function(X).shape == (60,)
    np.testing.assert_array_equal(clf.decision_function(X) > 0, clf.predict(X))
    assert isinstance(clf.predict_one(X[0]), bool)


# -- sample_domain ---------------------------------------------------------------------------------------------------


def table(seed=0):
    X, y = xy(seed, n=90)
    return X, y, np.tile([0, 1, -1], 30)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("garbage", ["?", None, float("nan"), [1, 2], 7, "ash"], ids=repr)
def test_the_labels_of_unlabelled_rows_are_never_looked_at(method, garbage):
    X, y, domain = table()
    clean = OnlineTransferClassifier(method).fit(X, y, sample_domain=domain)
    labels = y.astype(object)
    for i in np.flatnonzero(domain < 0):
        labels[i] = garbage
    copy_of_labels = labels.copy()
    for given in (labels, labels.tolist()):
        clf = OnlineTransferClassifier(method).fit(X, given, sample_domain=domain)
        assert_same_state(clf.learner_.arrays(), clean.learner_.arrays())
        assert clf.classes_.tolist() == clean.classes_.tolist()
    assert all(a is b for a, b in zip(labels, copy_of_labels, strict=True))


def test_sample_domain_through_a_pipeline_and_a_search():
    X, y, domain = table()
    plain = OnlineTransferClassifier("oddm").fit(X, y, sample_domain=domain)
    pipe = make_pipeline(OnlineTransferClassifier("oddm"))
    pipe.fit(X, y, onlinetransferclassifier__sample_domain=domain)
    np.testing.assert_array_equal(pipe.predict(X), plain.predict(X))
    grid = GridSearchCV(OnlineTransferClassifier("oddm"), {"dim": [1, 3]}, cv=2).fit(X, y, sample_domain=domain)
    assert grid.best_estimator_.source_names_ == ["0", "1"]


def test_any_negative_number_marks_the_target_and_any_other_a_source():
    X, y, domain = table()
    a = OnlineTransferClassifier("oddm").fit(X, y, sample_domain=domain)
    b = OnlineTransferClassifier("oddm").fit(X, y, sample_domain=np.select([domain == 0, domain == 1], [3, 9], -4.0))
    assert_same_state(a.learner_.arrays(), b.learner_.arrays())
    assert a.source_names_ == ["0", "1"]
    assert b.source_names_ == ["3", "9"]
    assert b.expert_names_ == ["source 3", "source 9", "target via 3", "target via 9"]
    assert len(a.discrepancy_) == len(a.info_) == 2


def test_without_sample_domain_all_rows_are_one_source():
    X, y = xy()
    a = OnlineTransferClassifier("oddm").fit(X, y)
    b = OnlineTransferClassifier("oddm").fit(X, y, sample_domain=np.zeros(60))
    assert_same_state(a.learner_.arrays(), b.learner_.arrays())


def test_fit_and_fit_domains_agree():
    task = make_task(0)
    X = np.vstack([*(d.X for d in task.sources), task.warmup.X])
    y = np.concatenate([*(d.y for d in task.sources), ["?"] * 15])
    for method in METHODS:
        a = fitted(task, method)
        b = OnlineTransferClassifier(method).fit(X, y, sample_domain=np.repeat([0, 1, -1], [24, 24, 15]))
        assert_same_state(a.learner_.arrays(), b.learner_.arrays())


def test_rows_of_a_source_come_in_the_order_given():
    X, y = xy()
    a = classifier("paio", source_pass="last").fit(X, y)
    b = classifier("paio", source_pass="last").fit(X[::-1], y[::-1])
    assert not np.array_equal(a.learner_.W, b.learner_.W)


# -- the stream ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_predict_then_learn_is_the_loop_over_predict_one_and_learn_one(method):
    task = make_task(2, missing=0.2, new_classes=2)
    block = fitted(task, method, refresh_every=10)
    loop = copy.deepcopy(block)
    predictions = []
    for x, label in zip(task.X, task.y, strict=True):
        predictions.append(loop.predict_one(x))
        loop.learn_one(x, label)
    np.testing.assert_array_equal(block.predict_then_learn(task.X, task.y), predictions)
    np.testing.assert_allclose(loop.weights_, block.weights_, atol=1e-12)
    assert loop.mistakes_ == block.mistakes_
    assert loop.classes_.tolist() == block.classes_.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_a_class_first_met_in_the_stream_is_learned_and_stands_last(method):
    X, y = xy()
    clf = classifier(method, refresh_every=5).fit(X[:30], np.where(y == "ash", "oak", y)[:30])
    assert clf.classes_.tolist() == ["birch", "cedar", "oak"]
    rng = np.random.default_rng(0)
    new = rng.normal(size=(30, 5)) - 9 * np.eye(5)[0]
    stream = np.vstack([new, X[30:]])[rng.permutation(60)]
    labels = np.where(np.isin(stream[:, 0], new[:, 0]), "a much longer name", "birch")
    predictions = clf.predict_then_learn(stream, labels)
    first = np.flatnonzero(labels == "a much longer name")[0]
    assert predictions[first] in ("birch", "cedar", "oak")
    assert clf.classes_.tolist() == ["birch", "cedar", "oak", "a much longer name"]
    assert (clf.predict(new) == "a much longer name").mean() > 0.9
    assert clf.predict_proba(new).shape == (30, 4)


def test_several_new_classes_in_one_block_stand_in_the_order_of_their_appearance():
    X, _ = xy()
    clf = OnlineTransferClassifier("oddm").fit(X, ["b", "c"] * 30)
    clf.partial_fit(X[:4], ["z", "a", "z", None])
    assert clf.classes_.tolist() == ["b", "c", "z", "a"]
    assert clf.seen_ == 3


def test_fixed_classes_refuse_another_label_and_nothing_is_changed():
    X, y = xy()
    clf = OnlineTransferClassifier("oddm", classes=["ash", "birch", "cedar", "oak"]).fit(X, y)
    assert clf.classes_.tolist() == ["ash", "birch", "cedar", "oak"]
    clf.learn_one(X[0], "oak")
    before = state_of(clf)
    for learn in (lambda: clf.learn_one(X[0], "elm"), lambda: clf.predict_then_learn(X[:3], ["oak", "elm", "oak"])):
        with pytest.raises(InputError, match=r"'elm' is not among classes.*add it there"):
            learn()
        assert_same_state(state_of(clf), before)
    with pytest.raises(InputError, match="'birch' is not among"):
        OnlineTransferClassifier("oddm", classes=["ash"]).fit(X, y)


@pytest.mark.parametrize(
    "classes", [np.array(["ash", "birch", "cedar"]), ("cedar", "birch", "ash"), pd.Index(["birch", "cedar", "ash"])]
)
def test_fixed_classes_may_come_as_any_sequence(classes):
    X, y = xy()
    assert OnlineTransferClassifier("pa", classes=classes).fit(X, y).classes_.tolist() == ["ash", "birch", "cedar"]


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA], ids=repr)
def test_a_missing_label_is_predicted_and_not_learned(missing):
    X, y = xy()
    clf = OnlineTransferClassifier("oddm").fit(X, y)
    before = state_of(clf)
    clf.learn_one(X[0], missing)
    clf.partial_fit(X[:3], [missing] * 3)
    assert len(clf.predict_then_learn(X[:3], [missing] * 3)) == 3
    assert_same_state(state_of(clf), before)


def test_nullable_columns_of_pandas():
    X, y = xy()
    codes = pd.Series(pd.Categorical(y).codes, dtype="Int64")
    clf = OnlineTransferClassifier("oddm").fit(X, codes)
    codes[3] = pd.NA
    clf.partial_fit(X, codes)
    assert clf.seen_ == 59
    text = pd.Series(y, dtype="string")
    assert OnlineTransferClassifier("oddm").fit(X, text).predict_one(X[0]) in set(y)


def test_a_late_label_is_learned_when_it_comes():
    task = make_task(0)
    now, late = fitted(task, "homotlms", preprocess=()), fitted(task, "homotlms", preprocess=())
    now.learn_one(task.X[1], task.y[1]).learn_one(task.X[0], task.y[0])
    late.predict_one(task.X[0])
    late.learn_one(task.X[1], task.y[1])
    late.learn_one(task.X[0], task.y[0])
    assert_same_state(now.learner_.arrays(), late.learner_.arrays())


@pytest.mark.parametrize("method", METHODS)
def test_partial_fit_from_nothing(method):
    X, y = xy()
    clf = OnlineTransferClassifier(method)
    clf.partial_fit(X[:20], y[:20])
    if method in PAPER:
        assert clf.expert_names_ == ["target"]
        assert clf.mistakes_ == clf.bound_
    else:
        assert clf.expert_names_ == ["free: target only", "class frequencies"]
        assert clf.mistakes_ <= clf.bound_
    assert "A" not in clf.learner_.arrays()
    one = OnlineTransferClassifier(method)
    for x, label in zip(X[:20], y[:20], strict=True):
        one.learn_one(x, label)
    assert one.seen_ == 20
    assert set(one.classes_) == set(clf.classes_)
    assert OnlineTransferClassifier(method).partial_fit(X[:1], y[:1], classes=["ash", "oak"]).n_features_in_ == 5


def test_from_nothing_with_labels_that_are_missing_at_first():
    X, _ = xy()
    clf = OnlineTransferClassifier("oddm").learn_one(X[0], None)
    with pytest.raises(InputError, match=r"no class is known yet.*classes="):
        clf.predict_one(X[0])
    with pytest.raises(InputError, match="no class is known yet"):
        clf.predict(X)
    clf.learn_one(X[1], "a").learn_one(X[2], "bb")
    assert clf.classes_.tolist() == ["a", "bb"]
    assert clf.predict(X).dtype == np.dtype("<U2")


def test_unlabelled_rows_alone_start_a_learner_of_the_target():
    X, _ = xy()
    for method in METHODS:
        clf = OnlineTransferClassifier(method).fit(X, [None] * 60, sample_domain=-np.ones(60))
        clf.learn_one(X[0], "a").learn_one(X[1], "b")
        assert clf.predict(X).shape == (60,)
        assert dict(clf.discrepancy_) == {}


def test_float32_from_nothing():
    X, y = xy()
    clf = OnlineTransferClassifier("oddm").partial_fit(X.astype(np.float32), y)
    assert clf.learner_.W.dtype == np.float32


def test_a_sparse_row_at_a_time():
    X, y = xy()
    X[np.abs(X) < 1] = 0
    S = sp.csr_array(X)
    dense, sparse = (classifier("oddm", eigenvectors="unit").fit(M, y) for M in (X, S))
    for i in range(10):
        assert dense.predict_one(X[i]) == sparse.predict_one(S[[i]])
        dense.learn_one(X[i], y[i])
        sparse.learn_one(S[[i]], y[i])
    np.testing.assert_allclose(sparse.weights_, dense.weights_)


def test_unfitted_use():
    clf, x = OnlineTransferClassifier(), np.ones(3)
    for use in (lambda: clf.predict([x]), lambda: clf.predict_one(x), lambda: clf.predict_then_learn([x], [0])):
        with pytest.raises(NotFittedError, match="fit"):
            use()
    with pytest.raises(NotFittedError):
        clf.save("nowhere")


def test_fitting_again_starts_anew():
    X, y = xy()
    clf = OnlineTransferClassifier("oddm").fit(X, y).partial_fit(X, y)
    assert_same_state(
        clf.fit(X[:, :3], y).learner_.arrays(), OnlineTransferClassifier("oddm").fit(X[:, :3], y).learner_.arrays()
    )
    assert clf.n_features_in_ == 3
