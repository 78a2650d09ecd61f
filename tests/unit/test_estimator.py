"""What a user reads of a model and may ask of it: numbers by name, nothing of an unfitted model, nothing ignored."""

from __future__ import annotations

import sys
import threading
from copy import deepcopy

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from support.laws import assert_same_state, fitted, make_task

from hedgerow import Domain, InputError, OnlineTransferClassifier

READ = [
    "mistakes_", "seen_", "bound_", "guarantee_", "hedge_loss_", "drift_", "weights_", "discrepancy_", "constants_",
    "expert_names_", "dim_", "method_", "classes_", "n_features_in_", "feature_names_in_", "table_",
]  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_an_unfitted_model_says_that_it_is_not_fitted(name):
    clf = OnlineTransferClassifier()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(clf, name)
    assert not hasattr(clf, name)


@pytest.mark.parametrize(
    "name", ["mistakes_", "seen_", "hedge_loss_", "guarantee_", "bound_", "weights_"]
)
def test_what_is_read_waits_for_the_step_of_another_thread(name):
    clf = fitted(make_task(0), "oddm")
    read = threading.Event()

    def look():
        getattr(clf, name)
        read.set()

    with clf._lock:
        reader = threading.Thread(target=look)
        reader.start()
        assert not read.wait(0.1)
    reader.join()
    assert read.is_set()


@pytest.mark.parametrize("use", ["predict_one", "learn_one", "predict", "to_bytes"])
def test_a_thread_that_waited_for_a_step_that_failed_does_not_use_the_damaged_learner(use):
    task = make_task(0)
    errors = []
    clf = fitted(task, "oddm")
    calls = {
        "predict_one": lambda: clf.predict_one(task.X[0]),
        "learn_one": lambda: clf.learn_one(task.X[0], task.y[0]),
        "predict": lambda: clf.predict(task.X),
        "to_bytes": lambda: clf.to_bytes(),
    }

    def work():
        try:
            calls[use]()
        except InputError as error:
            errors.append(str(error))

    with clf._lock:
        waiting = threading.Thread(target=work)
        waiting.start()
        waiting.join(0.1)  # it waits for the lock by now
        clf.learner_.damaged = "MemoryError: half a step"
    waiting.join()
    assert len(errors) == 1
    assert "half a step" in errors[0]


def test_the_order_of_a_pooled_pass_is_that_of_the_rows():
    task = make_task(0, n=2)
    X = np.vstack([source.X for source in task.sources])
    y = np.concatenate([source.y for source in task.sources])
    domain = np.repeat([0, 1], [len(source) for source in task.sources])
    plain, same, turned = (
        OnlineTransferClassifier("paio").fit(X[rows], y[rows], sample_domain=domain[rows])
        for rows in (np.arange(48), np.arange(48), np.arange(48)[::-1])
    )
    by_domain = OnlineTransferClassifier("paio").fit_domains(task.sources)
    assert_same_state(plain.learner_.arrays(), same.learner_.arrays())
    np.testing.assert_array_equal(plain.learner_.state["W"], by_domain.learner_.state["W"])
    assert not np.array_equal(plain.learner_.state["W"], turned.learner_.state["W"])


def test_the_classes_of_a_fitted_model_are_its_own():
    task = make_task(0)
    clf = fitted(task, "oddm")
    known = clf.classes_.tolist()
    before = clf.learner_.arrays()
    for other in ([*known, "another"], known[:-1], ["another"]):
        with pytest.raises(InputError, match="leave classes out"):
            clf.partial_fit(task.X[:5], task.y[:5], classes=other)
    assert_same_state(clf.learner_.arrays(), before)
    assert clf.classes_.tolist() == known
    assert clf.partial_fit(task.X[:5], task.y[:5], classes=known[::-1]).seen_ == 5


def test_a_file_says_what_the_model_was_fitted_with():
    task = make_task(0)
    clf = fitted(task, "oddm", mu=0.5).partial_fit(task.X[:20], task.y[:20])
    twin = deepcopy(clf).set_params(method="pa", options=None, preprocess="unit", max_classes=50)
    assert (twin.method, twin.method_) == ("pa", "oddm")
    loaded = OnlineTransferClassifier.from_bytes(twin.to_bytes())
    assert (loaded.method, loaded.method_, loaded.options.mu, loaded.max_classes) == (
        "oddm",
        "oddm",
        0.5,
        50,
    )
    assert loaded.preprocess == clf.preprocess
    np.testing.assert_array_equal(
        loaded.predict_then_learn(task.X, task.y), clf.predict_then_learn(task.X, task.y)
    )


@pytest.mark.parametrize("method", ["hedgerow", "oddm", "homotlms"])
def test_weights_and_discrepancies_have_names(method):
    task = make_task(0)
    clf = fitted(task, method).partial_fit(task.X, task.y)
    assert list(clf.weights_) == list(clf.expert_names_)
    assert list(clf.discrepancy_) == list(clf.source_names_) == [d.name for d in task.sources]
    assert sum(clf.weights_.values()) == pytest.approx(1)
    for values in (clf.weights_, clf.discrepancy_):
        assert values.array.tolist() == list(values.values()) == np.asarray(values).tolist()
        assert values == dict(values)
        assert repr(values) == repr(dict(values))
        np.testing.assert_allclose(values, values.array)
    np.asarray(clf.weights_)[:] = 7  # a copy
    assert max(clf.weights_.values()) <= 1


def test_two_sources_of_one_name_are_refused():
    a, b = (Domain("mugs", np.eye(3), ["a", "b", "a"]) for _ in range(2))
    with pytest.raises(InputError, match="two sources are called 'mugs'"):
        OnlineTransferClassifier("homotlms").fit_domains([a, b])


@pytest.mark.parametrize("method", ["pa", "homotlms", "oddm", "hedgerow"])
def test_what_a_model_said_of_a_row_does_not_change_with_the_next_one(method):
    task = make_task(0)
    clf = fitted(task, method).partial_fit(task.X[:20], task.y[:20])
    said = clf.explain_one(task.X[20]), clf.predict_proba_one(task.X[20])
    as_said = deepcopy(said)
    for x, label in zip(task.X[21:40], task.y[21:40], strict=True):
        clf.explain_one(x)
        clf.learn_one(x, label)
    assert said == as_said


@pytest.mark.parametrize("method", ["pa", "homotlms", "oddm", "hedgerow"])
def test_rows_of_several_threads_do_not_mix(method):
    """The arrays of a row are those of the model: nobody may read them while another thread predicts."""
    task = make_task(0)
    clf = fitted(task, method).partial_fit(task.X[:20], task.y[:20])
    alone = [clf.explain_one(x) for x in task.X]
    wrong = []
    start = threading.Barrier(4)

    def work(first):
        start.wait()
        for i in range(400):
            row = (first + i) % len(task.X)
            if clf.explain_one(task.X[row]) != alone[row]:
                wrong.append(row)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=[7 * k]) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
