"""No stored state can make a later call fail: any calls that were answered leave models that work.

A regressor and classifiers of all methods, each alone, live, in a fleet and over HTTP, are given the same hostile
numbers: rows and labels that are denormal, tiny, huge, constant, alternating or in another unit. What one of them
refuses all of them refuse, and then nothing has changed.
"""

from __future__ import annotations

import asyncio
import copy
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from support.laws import METHODS, budget

from hedgerow import InputError, OnlineTransferClassifier, OnlineTransferRegressor
from hedgerow.fleet import DeadLetter, Fleet
from hedgerow.live import LiveModel
from hedgerow.regressor import model_of_bytes
from hedgerow.service import ServiceSettings
from hedgerow.service.app import build

COLUMNS = 3
NUMBERS = "numbers"
LIVE = "m"
UNITS = (1.0, 5e-324, 1e-310, 1e-300, 1e-9, 1e9, 1e90, 1e99)
HOSTILE = (0.0, 5e-324, 1e-300, 1e-150, 1e-9, 0.5, 1.0, 1e6, 1e99, 9e99, 1e100, 1e101, 1e200, 1e308)
FEATURES = (0.0, 5e-324, 1e-300, 1e-9, 0.5, 1.0, 3.0, 1e6, 1e99, 1e147, 1e149, 1e308)
KINDS = ("level", "constant", "one far row", "a column that hardly varies", "as given")


@cache
def sources(seed: int, unit: float, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of two sources, their numbers in a unit, and the number of the source."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, COLUMNS))
    domain = np.arange(40) % 2
    y = X @ [1.0, -2.0, 0.5] + (3.0 * domain if kind == "level" else 0.0)
    if kind == "constant":
        y[:] = 1.0
    if kind == "a column that hardly varies":
        X[:, 1] *= 1e-12
    if kind == "one far row":
        y[0] = 1e9
    return X, y * unit, domain


@cache
def fitted(method: str, seed: int, unit: float, kind: str) -> bytes:
    X, y, domain = sources(seed, unit, kind)
    if method == NUMBERS:
        model = OnlineTransferRegressor(coverage=(0.9, 0.5)).fit(X, y, sample_domain=domain)
    else:
        labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
        model = OnlineTransferClassifier(method).fit(X, labels, sample_domain=domain)
    return model.to_bytes()


def works(model, X: np.ndarray) -> np.ndarray:
    """All that a model is asked for gives finite numbers; a copy from its bytes predicts the same."""
    again = model_of_bytes(model.to_bytes())
    if isinstance(model, OnlineTransferRegressor):
        said = np.column_stack([model.predict(X), model.predict_interval(X)])
        other = np.column_stack([again.predict(X), again.predict_interval(X)])
        assert np.isfinite([model.squared_error_, model.bound_]).all()
        assert model.squared_error_ <= model.bound_ * (1 + 1e-9)
        if model.seen_:
            assert np.isfinite([model.rmse_, *model.coverage_.values()]).all()
    else:
        said = model.decision_function(X)
        other = again.decision_function(X)
        assert np.isfinite(model.bound_)
        assert set(model.predict(X)) <= set(model.classes_)
    assert np.isfinite(said).all()
    np.testing.assert_array_equal(said, other)
    assert np.isfinite(model.weights_.array).all()
    assert model.drift_.alarms >= 0
    model.explain_one(X[0])
    return said


class Served:
    """A live model and a key of a fleet behind the service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.app = build(ServiceSettings(models=self.folder))
        self.life = self.app.router.lifespan_context(self.app)
        self.loop.run_until_complete(self.life.__aenter__())
        transport = httpx.ASGITransport(app=self.app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        while self.ask("GET", "/readyz").status_code != 200:
            self.loop.run_until_complete(asyncio.sleep(0.01))

    def stop(self) -> None:
        self.loop.run_until_complete(self.life.__aexit__(None, None, None))
        self.loop.close()

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.loop.run_until_complete(self.http.request(method, path, json=body))

    def learn(self, x, y, id: str) -> list[bool]:
        """Whether the model and the key have learned a row with its label; what refuses it says why."""
        return [
            self._learn(f"models/{LIVE}", {}, x, y, id),
            self._learn("fleets/f", {"key": "k"}, x, y, id),
        ]

    def _learn(self, path: str, key: dict, x, y, id: str) -> bool:
        body = {"instances": [x.tolist()], "ids": [id]} | {f"{name}s": [key[name]] for name in key}
        predicted = self.ask("POST", f"/v1/{path}/predict", body)
        if predicted.status_code == 422:
            return False
        assert predicted.status_code == 200, predicted.text
        answer = self.ask("POST", f"/v1/{path}/label", {"labels": [{"id": id, "label": y, **key}]})
        if answer.status_code == 422:
            return False
        assert answer.status_code == 200, answer.text
        [result] = answer.json()["results"]
        assert result["status"] in ("learned", "refused"), result
        return result["status"] == "learned"

    def works(self, X: np.ndarray) -> None:
        """All that it is asked for is answered, in finite numbers."""
        model = f"/v1/models/{LIVE}"
        asked = [
            "/v1/models",
            "/v1/fleets",
            "/metrics",
            "/v1/fleets/f",
            "/v1/fleets/f/stats",
            model,
        ]
        asked += [
            f"{model}/{what}" for what in ("stats", "history", "latest?features=true", "alarms")
        ]
        for path in asked:
            answer = self.ask("GET", path)
            assert answer.status_code == 200, (path, answer.text)
            assert '"error":"' not in answer.text
        rows = {"instances": X.tolist(), "explain": True}
        for path, more in ((model, {}), ("/v1/fleets/f", {"keys": ["k"] * len(X)})):
            answer = self.ask("POST", f"{path}/predict", rows | more)
            assert answer.status_code == 200, answer.text
            for one in answer.json()["predictions"]:
                said = (
                    [one["probability"]]
                    if "probability" in one
                    else [one["prediction"], *one["interval"]]
                )
                assert None not in said, one


class Sequence(RuleBasedStateMachine):
    """One model alone, one live, one key of a fleet, and both behind the service, which are given the same calls."""

    methods: tuple[str, ...]

    @initialize(
        data=st.data(), seed=st.integers(0, 2), unit=st.sampled_from(UNITS), kind=st.sampled_from(KINDS),
        cold=st.booleans(),
    )  # fmt: skip
    def begin(self, data, seed, unit, kind, cold):
        self.method = data.draw(st.sampled_from(self.methods))
        self.unit = unit
        self.folder = Path(tempfile.mkdtemp())
        self.rng = np.random.default_rng(seed)
        self.count = 0
        stored = fitted(self.method, seed, unit if self.method == NUMBERS else 1.0, kind)
        self.model = model_of_bytes(stored)
        self.live = LiveModel.create(self.folder / "live", model_of_bytes(stored))
        self.fleet = Fleet(model_of_bytes(stored), path=self.folder / "fleet")
        served = self.folder / "served"
        LiveModel.create(served / LIVE, model_of_bytes(stored)).close()
        Fleet(model_of_bytes(stored), path=served / "f").close()
        self.served = Served(served)
        self.cold = OnlineTransferRegressor() if cold and self.method == NUMBERS else None

    def row(self, values) -> np.ndarray:
        x = self.rng.normal(size=COLUMNS)
        for column, value in values:
            x[column] = value
        return x

    def label(self, value, sign):
        if self.method == NUMBERS:
            return sign * value
        return ["a", "b", "c", "new"][int(self.rng.integers(4))]

    def learn(self, x, y) -> bool:
        """Whether all three have learned it; if not, all three have refused it and are what they were."""
        before = self.model.to_bytes()
        seen = self.fleet["k"].seen_
        try:
            self.model.learn_one(x, y)
            learned = True
        except InputError:
            learned = False
            assert self.model.to_bytes() == before
        letters: list[DeadLetter] = []
        try:
            self.fleet.predict_then_learn(["k"], [x], [y], dead_letters=letters)
            assert bool(letters) != learned
        except InputError:
            assert not learned
        assert self.fleet["k"].seen_ == seen + learned
        self.count += 1
        assert self.served.learn(x, y, f"e{self.count}") == [learned] * 2
        try:
            self.live.predict(x, f"e{self.count}")
        except InputError:
            assert not learned
            return False
        answer = self.live.label(f"e{self.count}", y)
        assert (answer.status == "learned") == learned, answer
        if self.cold is not None:
            try:
                self.cold.learn_one(x, y)
            except InputError:
                assert abs(y) > 1e100 or not learned or self.cold.__sklearn_is_fitted__()
        return learned

    @rule(
        values=st.lists(st.tuples(st.integers(0, COLUMNS - 1), st.sampled_from(FEATURES)), max_size=3),
        value=st.sampled_from(HOSTILE), sign=st.sampled_from((1, -1)),
    )  # fmt: skip
    def one(self, values, value, sign):
        self.learn(self.row(values), self.label(value, sign))

    @rule(value=st.floats(-3, 3), count=st.integers(1, 20), alternating=st.booleans())
    def several_in_the_unit_of_the_sources(self, value, count, alternating):
        for i in range(count):
            sign = -1 if alternating and i % 2 else 1
            assert self.learn(self.row([]), self.label(value * self.unit, sign))

    @rule(value=st.sampled_from(HOSTILE), count=st.integers(1, 20))
    def alternating(self, value, count):
        for i in range(count):
            self.learn(self.row([]), self.label(value, 1 if i % 2 else -1))

    @rule()
    def recover(self):
        before = self.live.clf.learner_.arrays()
        seen = self.fleet["k"].seen_
        self.live.close()
        self.fleet.close()
        self.served.stop()
        self.live = LiveModel.open(self.folder / "live")
        self.fleet = Fleet.open(self.folder / "fleet")
        with Fleet.open(self.served.folder / "f") as fleet:
            assert fleet.to_bytes("k") == self.fleet.to_bytes("k")
        self.served.start()
        for name, array in self.live.clf.learner_.arrays().items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)
        assert self.fleet["k"].seen_ == seen
        self.model = copy.deepcopy(self.model)

    @invariant()
    def all_of_them_work(self):
        if not hasattr(self, "live"):
            return
        X = np.vstack(
            [np.zeros(COLUMNS), self.rng.normal(size=(3, COLUMNS)), np.full(COLUMNS, 1e99)]
        )
        said = works(self.model, X)
        np.testing.assert_array_equal(works(self.live.clf, X), said)
        works(self.fleet.model("k"), X)
        json.dumps([self.live.stats(), self.live.latest(3), self.live.history()], allow_nan=False)
        self.fleet.stats()
        self.served.works(X)
        if self.cold is not None and self.cold.__sklearn_is_fitted__():
            works(self.cold, X)

    def teardown(self):
        if hasattr(self, "live"):
            self.live.close()
            self.fleet.close()
            self.served.stop()
            shutil.rmtree(self.folder)


@pytest.mark.parametrize("methods", [(NUMBERS,), METHODS], ids=["numbers", "classes"])
def test_any_sequence_of_calls_leaves_models_that_work(methods):
    machine = type("SequenceOf", (Sequence,), {"methods": methods})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=budget(20),
            stateful_step_count=8,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
