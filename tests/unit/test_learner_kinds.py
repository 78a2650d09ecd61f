"""A third kind of learner in one module: random Fourier features and softmax regression by stochastic gradients.

Everything that a user does with a method is done with it here; nothing in the library knows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from support.laws import assert_same_state, make_task

from hedgerow import OnlineTransferClassifier, register_method
from hedgerow.checks import check_method
from hedgerow.core.arrays import dense
from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError
from hedgerow.core.moments import Moments
from hedgerow.core.registry import of_json
from hedgerow.learner import (
    LEARNERS,
    Layout,
    OnlineLearner,
    Prediction,
    Spec,
    Trace,
    bookkeeping,
    common,
    not_more_known_before,
    pad_axis,
    register_learner,
)
from hedgerow.methods import METHODS, Built, Method
from hedgerow.mix import softmax

NAME = "fourier-sgd"

# -- the package: a method and a learner --------------------------------------------------------------------------


@dataclass(frozen=True)
class FourierPlan:
    """The preprocessing and the step size."""

    steps: tuple[str, ...]
    rate: float


@dataclass(frozen=True)
class FourierMethod(Method):
    """Random Fourier features; softmax regression started on the sources, then taught by the stream."""

    features: int = 40
    rate: float = 2.0

    def build(self, offline):
        """One pass over the sources."""
        m, K = offline.warmup.shape[1], offline.K
        D = self.features if offline.options.rank is None else offline.options.rank
        rng = np.random.default_rng(offline.options.seed)
        constants = {"omega": rng.normal(size=(m, D)), "phase": rng.uniform(0, 2 * np.pi, size=D)}
        moments = [Moments.of(source.X, source.codes, K, weight=source.weight) for source in offline.sources]
        kept = offline.warmup if offline.options.reading.target_mean == "warmup" else offline.warmup[:0]
        of_sources, state = bookkeeping(moments, kept, K, 1)
        fixed, running = offline.pre.arrays()
        state |= {"W": np.zeros((K, D))} | running
        plan = FourierPlan(offline.pre.steps, self.rate)
        learner = FourierLearner(plan, Constants(constants | of_sources | fixed), state)
        for source in offline.sources:
            learner.learn(learner.features(dense(source.X)), source.codes, source.weight)
        return Built(learner, [])

    def options(self, given):
        """`rank` is the number of features."""
        return frozenset({"rank", "preprocess", "target_mean"})


@register_learner
class FourierLearner(OnlineLearner):
    """f = W phi(x); W += rate (e_y - softmax f) phi'."""

    kind = "fourier"
    plan: FourierPlan

    def plan_to_json(self) -> dict[str, Any]:
        return asdict(self.plan)

    @classmethod
    def plan_from_json(cls, data: Mapping[str, Any]) -> FourierPlan:
        return of_json(FourierPlan, data)

    @classmethod
    def layout(cls, plan: FourierPlan) -> Layout:
        constants, state = common(plan.steps, 1)
        constants |= {"omega": Spec(("m", "D")), "phase": Spec(("D",))}
        return Layout(constants, state | {"W": Spec(("K", "D"))}, (not_more_known_before,))

    expert_names = ("fourier",)
    weights = np.ones(1)
    bound = np.inf
    guarantee = "nothing"
    dtype = np.dtype(np.float64)

    @property
    def dim(self) -> int:
        return len(self.constants["phase"])

    def features(self, X):
        return np.sqrt(2 / self.dim) * np.cos(X @ self.constants["omega"] + self.constants["phase"])

    def expert_scores(self, X):
        return (self.features(dense(self.pre.apply(X))) @ self.state["W"].T)[:, None]

    def scores(self, X):
        return self.expert_scores(X)[:, 0]

    def probabilities(self, scores):
        return softmax(scores)

    def predict_row(self, x):
        F = self.expert_scores(x[None])[0]
        return Prediction(int(F[0].argmax()), F[0], self.weights, F)

    def learn(self, Z, y, weight):
        W, F = self.state["W"], np.empty((len(Z), self.n_classes))
        for t, (z, label) in enumerate(zip(Z, y, strict=True)):
            F[t] = W @ z
            if label >= 0:
                step = -softmax(F[t])
                step[label] += 1
                W += self.plan.rate * (1.0 if weight is None else weight[t]) * np.outer(step, z)
        return F

    def _run_block(self, X, y, known, weight):
        X = dense(X)
        F = self.learn(self.features(X), y, weight)[:, :known]
        self.target.add(X, y, weight)
        votes = F.argmax(axis=1)[:, None]
        return Trace(F, np.ones((len(F), 1)), votes), float(((votes[:, 0] != y) & (y >= 0)).sum())

    def grow(self, n_classes):
        pad_axis(self.state, "W", 0, n_classes - self.n_classes)
        super().grow(n_classes)


# -- what a user does with it -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _registered():
    register_learner(FourierLearner, replace=True)
    register_method(NAME, FourierMethod("Fourier SGD"), replace=True)
    yield
    METHODS.unregister(NAME)
    LEARNERS.unregister("fourier")


def start(task, **options):
    return OnlineTransferClassifier(NAME, **options).fit_domains(task.sources, task.warmup)


def test_it_obeys_the_laws_of_a_method():
    check_method(NAME)
    check_method(NAME, rank=7, preprocess=())


def test_it_learns():
    task = make_task(0, stream=400)
    clf = start(task)
    chance = np.mean(task.y != "c0")
    assert np.mean(clf.predict(task.X) != task.y) < 0.8 * chance  # from the sources alone
    assert clf.partial_fit(task.X, task.y).mistakes_ < 0.5 * chance * 400
    assert clf.seen_ == 400
    assert np.isfinite(clf.discrepancy_).all()


def test_every_verb():
    task = make_task(1, new_classes=1)
    clf = start(task)
    told = clf.explain_one(task.X[0])
    assert told.label == clf.predict_one(task.X[0])
    assert set(told.votes) == {"fourier"}
    assert np.isclose(sum(told.probabilities.values()), 1)
    clf.predict_then_learn(task.X, task.y)
    assert "c3" in clf.classes_
    assert clf.weights_ == {"fourier": 1.0}
    assert clf.bound_ == np.inf
    assert clf.dim_ == 40
    cold = OnlineTransferClassifier(NAME).partial_fit(task.X, task.y)  # no sources at all
    assert cold.seen_ == 50


def test_saved_and_loaded(tmp_path):
    task = make_task(2, new_classes=1)
    clf = start(task).partial_fit(task.X[:30], task.y[:30])
    clf.save(tmp_path / "model")
    loaded = OnlineTransferClassifier.load(tmp_path / "model")
    assert_same_state(loaded.learner_.arrays(), clf.learner_.arrays())
    shared = OnlineTransferClassifier.from_bytes(clf.to_bytes(constants=False), constants=clf.constants_)
    expected = deepcopy(clf).predict_then_learn(task.X[30:], task.y[30:])
    for model in (clf, loaded, shared):
        np.testing.assert_array_equal(model.predict_then_learn(task.X[30:], task.y[30:]), expected)
    LEARNERS.unregister("fourier")
    with pytest.raises(InputError, match=r"kind 'fourier', which is not registered here: import its package first"):
        OnlineTransferClassifier.load(tmp_path / "model")


def test_its_files_are_checked_by_its_layout():
    from support import fuzz_models

    task = make_task(2)
    header, arrays = fuzz_models.opened(start(task).partial_fit(task.X, task.y).to_bytes())
    for wrong in (arrays["state/W"][:, :3], arrays["state/W"].astype(np.float32), arrays["state/W"] * np.nan):
        with pytest.raises(InputError, match="'W'"):
            OnlineTransferClassifier.from_bytes(fuzz_models.signed(header, arrays | {"state/W": wrong}))
    with pytest.raises(InputError, match="rate"):
        OnlineTransferClassifier.from_bytes(
            fuzz_models.signed(header | {"plan": {"steps": [], "rate": "fast"}}, arrays)
        )


def test_options_that_it_does_not_read_are_refused():
    with pytest.raises(InputError, match=r"C=2.0: method 'fourier-sgd' does not read it"):
        start(make_task(0), C=2.0)
    with pytest.raises(InputError, match=r"rank=3: method 'oddm' .*fourier-sgd"):
        OnlineTransferClassifier("oddm", rank=3).fit(np.eye(4), [0, 1, 0, 1])


def test_in_an_experiment_beside_ours():
    from functools import partial

    from hedgerow.lab.runner import Unit
    from hedgerow.lab.study import measure
    from hedgerow.lab.tasks import task_of

    for name in (NAME, "pa"):
        unit = Unit("experiment", "thin", name, partial(task_of, "digits", "thin", 0, False), measure)
        [row] = unit.rows([0], None)
        assert (row["method"], row["n"]) == (name, 250)


def test_on_the_command_line():
    from typer.testing import CliRunner

    from hedgerow.cli.app import app  # its table of methods

    shown = CliRunner().invoke(app, ["methods"])
    assert shown.exit_code == 0
    assert NAME in shown.output
