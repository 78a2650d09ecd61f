"""Step by step equal to the authors' code: a run recorded under GNU Octave, target DSLR (HEDGEROW_GOLDEN/dslr.mat)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from scipy.io import loadmat
from scipy.linalg import subspace_angles
from support.laws import classifier, projections

from hedgerow import OnlineTransferClassifier, load, split

NAMES = {
    "amazon.mat": "amazon",
    "Caltech10.mat": "caltech",
    "dslr.mat": "dslr",
    "webcam.mat": "webcam",
}


@pytest.fixture(scope="module")
def golden(golden_dir) -> dict[str, Any]:
    return loadmat(golden_dir / "dslr.mat", simplify_cells=True)


@pytest.fixture(scope="module")
def task(golden, data_dir):
    domains = load("office-caltech", data_dir=data_dir)
    sources = [domains[NAMES[name]].ordered() for name in golden["source_domains"]]
    warmup, stream = split(domains[NAMES[golden["target_domain"]]], warmup=0.3, seed=None)
    return sources, warmup, stream


@pytest.fixture(scope="module")
def fitted(golden, task) -> OnlineTransferClassifier:
    sources, warmup, stream = task
    clf = classifier("oddm", reading="authors", lam=float(golden["lam"]), horizon=len(stream))
    return clf.fit_domains(sources, warmup)


def replay(fitted, task, golden, trial):
    clf = copy.deepcopy(fitted)
    stream = task[2]
    order = golden["ID_new"][trial].astype(int) - 1
    labels = stream.y[order]
    trace = clf.learner_.run(stream.X[order], np.searchsorted(clf.classes_, labels))
    return clf, trace, labels


def test_the_stream_is_the_authors_stream(golden, task):
    np.testing.assert_array_equal(task[2].y, golden["y_online"])
    assert len(task[1]) == golden["NUM_t"][0]


def test_initial_projections(golden, fitted):
    for A, expected in zip(projections(fitted), golden["JDA_A"], strict=True):
        # sin of the angle is what rounding leaves exact near zero
        assert np.sin(subspace_angles(A, expected)).max() < 1e-6
        signs = np.sign((A * expected).sum(axis=0))
        np.testing.assert_allclose(A * signs, expected, atol=1e-8, rtol=0)


def test_source_classifiers_and_means(golden, fitted):
    learner = fitted.learner_
    n = len(fitted.source_names_)
    for i in range(n):
        signs = np.sign((projections(fitted)[i] * golden["JDA_A"][i]).sum(axis=0))
        np.testing.assert_allclose(learner.W[i] * signs, golden["Wsrc"][i], atol=1e-8, rtol=0)
        np.testing.assert_allclose(learner.source(i).mean, golden["MEAN_Xs"][i], atol=1e-12)
        np.testing.assert_allclose(learner.source(i).class_means, golden["MEAN_ks"][i], atol=1e-12)
    target = learner.target.mean
    np.testing.assert_allclose(target, golden["MEAN_Xt"][0], atol=1e-12)


def test_the_discount(golden, fitted):
    assert fitted.learner_.plan.mixer.beta == pytest.approx(golden["beta1"], abs=1e-15)


@pytest.mark.parametrize("trial", [0, 1])
def test_every_step_of_a_trial(golden, task, fitted, trial):
    clf, trace, labels = replay(fitted, task, golden, trial)
    log = golden["LOGS"][trial]
    np.testing.assert_array_equal(labels, log["y"])
    np.testing.assert_array_equal(trace.predictions + 1, log["pred"])
    np.testing.assert_array_equal(trace.votes.T + 1, np.vstack([log["ps"], log["pt"]]))
    np.testing.assert_allclose(trace.weights.T, np.vstack([log["u"], log["v"]]), atol=1e-10, rtol=0)
    np.testing.assert_allclose(trace.scores.T, log["F"], atol=1e-10, rtol=0)
    n = len(clf.source_names_)
    for i in range(n):
        signs = np.sign((projections(fitted)[i] * golden["JDA_A"][i]).sum(axis=0))
        np.testing.assert_allclose(projections(clf)[i] * signs, log["Afinal"][i], atol=1e-8, rtol=0)
        np.testing.assert_allclose(clf.learner_.W[n + i] * signs, log["Wt"][i], atol=1e-8, rtol=0)


def test_mistakes_of_all_trials(golden, task, fitted):
    mistakes = [
        replay(fitted, task, golden, trial)[0].mistakes_ for trial in range(len(golden["ID_new"]))
    ]
    np.testing.assert_array_equal(mistakes, golden["err_ODDM"])


def test_running_mistake_rates(golden, task, fitted):
    checkpoints = golden["mistakes_idx"].astype(int)[
        1:
    ]  # the first is 0, before anything was predicted
    for trial in range(3):
        _, trace, labels = replay(fitted, task, golden, trial)
        running = np.cumsum(trace.predictions + 1 != labels) / np.arange(1, len(labels) + 1)
        recorded = golden["mistakes_list_ODDM"][trial]
        np.testing.assert_allclose(running[checkpoints - 1], recorded, atol=1e-12)
