"""scikit-learn's verbs and river's verbs: its own checks, and what a user of either expects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.laws import (
    METHODS,
    PAPER,
    as_table,
    assert_close_state,
    assert_same_state,
    classifier,
    fitted,
    make_task,
    state_of,
)

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.ridge.grown import HEAD

NOT_REPEATED = "a weight is no number of repetitions: it scales one step of a head, and the maps see each row once"


def weights_that_do_not_repeat(estimator):
    """The checks that a weight is so many copies of a row, in any order: no online learner's is.

    `pa` learns nothing from the rows of sources, whatever they weigh.
    """
    if estimator.method == "pa":
        return {}
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": NOT_REPEATED
        for kind in ("dense", "sparse")
    }


QUICK = ("hedgerow", "pa", "oddm")  # one of each kind of learner


@pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn")  # its own cast of NaN in a check
@parametrize_with_checks(
    [OnlineTransferClassifier(method) for method in QUICK],
    expected_failed_checks=weights_that_do_not_repeat,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn")
@parametrize_with_checks(
    [OnlineTransferClassifier(method) for method in METHODS if method not in QUICK],
    expected_failed_checks=weights_that_do_not_repeat,
)
def test_scikit_learns_checks_of_the_other_methods(estimator, check):
    check(estimator)


def xy(seed=0, n=60, K=3, m=5):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % K)
    return rng.normal(size=(n, m)) + 3 * rng.normal(size=(K, m))[y], np.array(
        ["ash", "birch", "cedar"]
    )[y]


def test_pipeline_grid_search_clone_and_params():
    X, y = xy()
    pipe = make_pipeline(StandardScaler(), OnlineTransferClassifier("oddm"))
    name = "onlinetransferclassifier__options"
    grid = GridSearchCV(pipe, {f"{name}__dim": [1, 3], f"{name}__C": [0.1, 5]}, cv=2)
    assert grid.fit(X, y).best_score_ > 0.8
    assert cross_val_score(OnlineTransferClassifier("paio"), X, y, cv=3).mean() > 0.8
    clf = classifier("homotlms", lam=0.5, preprocess=("unit",), classes=["ash", "birch", "cedar"])
    twin = clone(clf)
    assert twin.get_params() == clf.get_params()
    assert twin.set_params(options__C=2.0, method="oddm").options == replace(clf.options, C=2.0)
    assert clf.options.C is None
    with pytest.raises(InputError, match=r"unknown option 'dimm'; did you mean 'dim'"):
        twin.set_params(options__dimm=3)
    assert "method='homotlms'" in repr(clf)


def test_a_row_of_a_data_frame_may_have_more_keys():
    X, y = xy()
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(5)])
    clf = OnlineTransferClassifier("oddm").fit(frame, pd.Series(y, dtype="string"))
    np.testing.assert_array_equal(
        clf.predict(frame), OnlineTransferClassifier("oddm").fit(X, y).predict(X)
    )
    row = dict(frame.iloc[0])
    assert (
        clf.predict_one({**row, "unused": 1.0}) == clf.predict_one(row) == clf.predict(frame[:1])[0]
    )


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
        items = labels
        labels = np.empty(len(labels), dtype=object)
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


def test_domains_and_weights_through_a_pipeline_and_a_search():
    X, y, domain = table()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    weighted = classifier("oddm", C=0.05).fit(X, y, sample_domain=domain, sample_weight=weight)
    even = classifier("oddm", C=0.05).fit(X, y, sample_domain=domain)
    pipe = make_pipeline(classifier("oddm", C=0.05))
    name = "onlinetransferclassifier"
    pipe.fit(X, y, **{f"{name}__sample_domain": domain, f"{name}__sample_weight": weight})
    np.testing.assert_array_equal(pipe.predict_proba(X), weighted.predict_proba(X))
    assert not np.allclose(pipe.predict_proba(X), even.predict_proba(X))
    grid = GridSearchCV(OnlineTransferClassifier("oddm"), {"options__dim": [1, 3]}, cv=2).fit(
        X, y, sample_domain=domain
    )
    assert grid.best_estimator_.source_names_ == ["0", "1"]


def test_any_negative_number_marks_the_target_and_any_other_a_source():
    X, y, domain = table()
    a = OnlineTransferClassifier("oddm").fit(X, y, sample_domain=domain)
    b = OnlineTransferClassifier("oddm").fit(
        X, y, sample_domain=np.select([domain == 0, domain == 1], [3, 9], -4.0)
    )
    assert_same_state(a.learner_.arrays(), b.learner_.arrays())
    assert a.source_names_ == ["0", "1"]
    assert b.source_names_ == ["3", "9"]
    assert b.expert_names_ == ["source 3", "source 9", "target via 3", "target via 9"]
    assert len(a.discrepancy_) == len(a.info_) == 2
    c, d = (
        OnlineTransferClassifier("oddm").fit(X, y, sample_domain=numbers)
        for numbers in (None, np.zeros(90))
    )
    assert_same_state(c.learner_.arrays(), d.learner_.arrays())


def test_fit_and_fit_domains_agree():
    task = make_task(0)
    for method in METHODS:
        a = fitted(task, method)
        b = OnlineTransferClassifier(method).fit(*as_table(task))
        assert_same_state(a.learner_.arrays(), b.learner_.arrays())


def test_rows_of_a_source_come_in_the_order_given():
    X, y = xy()
    a = classifier("paio", source_pass="last").fit(X, y)
    b = classifier("paio", source_pass="last").fit(X[::-1], y[::-1])
    assert not np.array_equal(a.learner_.W, b.learner_.W)


# -- the stream ------------------------------------------------------------------------------------------------------


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
    for learn in (
        lambda: clf.learn_one(X[0], "elm"),
        lambda: clf.predict_then_learn(X[:3], ["oak", "elm", "oak"]),
    ):
        with pytest.raises(InputError, match=r"'elm' is not among classes.*add it there"):
            learn()
        assert_same_state(state_of(clf), before)
    with pytest.raises(InputError, match="'birch' is not among"):
        OnlineTransferClassifier("oddm", classes=["ash"]).fit(X, y)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["ash", "birch", "cedar"]),
        ("cedar", "birch", "ash"),
        pd.Index(["birch", "cedar", "ash"]),
    ],
)
def test_fixed_classes_may_come_as_any_sequence(classes):
    X, y = xy()
    assert OnlineTransferClassifier("pa", classes=classes).fit(X, y).classes_.tolist() == [
        "ash",
        "birch",
        "cedar",
    ]


@pytest.mark.filterwarnings("ignore:learn_one on a model that was not fitted")
@pytest.mark.parametrize("method", METHODS)
def test_partial_fit_from_nothing(method):
    X, y = xy()
    weight = np.full(20, 0.5)
    clf = OnlineTransferClassifier(method).partial_fit(X[:1], y[:1], sample_weight=weight[:1])
    clf.predict_then_learn(X[1:20], y[1:20], sample_weight=weight[1:])
    if method in PAPER:
        assert clf.expert_names_ == ["target"]
        assert clf.mistakes_ == clf.bound_
    else:
        local = method == "hedgerow"
        assert clf.expert_names_ == [
            "free: target only",
            *(["near input: target only"] if local else []),
            "last label",
            *([HEAD] if local else []),
            "class frequencies",
        ]
        assert clf.mistakes_ <= clf.bound_
    assert "A" not in clf.learner_.arrays()
    one = OnlineTransferClassifier(method)
    for x, label in zip(X[:20], y[:20], strict=True):
        one.learn_one(x, label, weight=0.5)
    assert one.classes_.tolist() == clf.classes_.tolist()
    assert_close_state(one.learner_.arrays(), clf.learner_.arrays())
    assert (
        OnlineTransferClassifier(method)
        .partial_fit(X[:1], y[:1], classes=["ash", "oak"])
        .n_features_in_
        == 5
    )


@pytest.mark.filterwarnings("ignore:learn_one on a model that was not fitted")
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


def test_unfitted_use():
    clf = OnlineTransferClassifier()
    x = np.ones(3)
    for use in (
        lambda: clf.predict([x]),
        lambda: clf.predict_one(x),
        lambda: clf.predict_then_learn([x], [0]),
    ):
        with pytest.raises(NotFittedError, match="fit"):
            use()
    with pytest.raises(NotFittedError):
        clf.save("nowhere")


def test_fitting_again_starts_anew():
    X, y = xy()
    clf = OnlineTransferClassifier("oddm").fit(X, y).partial_fit(X, y)
    assert_same_state(
        clf.fit(X[:, :3], y).learner_.arrays(),
        OnlineTransferClassifier("oddm").fit(X[:, :3], y).learner_.arrays(),
    )
    assert clf.n_features_in_ == 3
