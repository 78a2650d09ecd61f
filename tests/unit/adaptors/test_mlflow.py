"""`hedgerow.mlflow`: a flavour on our own files, pyfunc, and logging by itself, in a real store of MLflow's."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.preprocessing import StandardScaler
from support.laws import assert_same_state, make_task, state_of

from hedgerow import Domain, InputError, OnlineTransferClassifier, OnlineTransferRegressor
from hedgerow.pipeline import make_online_pipeline

NO_PICKLE = (
    pickle.UnpicklingError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
)
NAMES = [f"f{i}" for i in range(6)]


@pytest.fixture(scope="module", autouse=True)
def _imported():
    """Here and not above: it takes seconds, in each process that collects the tests."""
    global mlflow, flavour
    mlflow = pytest.importorskip("mlflow", reason="pip install 'hedgerow[mlflow]'")
    import hedgerow.mlflow as flavour


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    before = mlflow.get_tracking_uri()
    here = (tmp_path / "mlruns").as_uri()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv(
        "MLFLOW_TRACKING_URI", here
    )  # MLflow sets it too, for processes that it starts
    mlflow.set_tracking_uri(here)
    yield tmp_path
    flavour.autolog(disable=True)
    mlflow.set_tracking_uri(before)


def fitted(method="homotlms", named=True, seed=0):
    task = make_task(seed)
    if named:
        sources = [Domain(d.name, pd.DataFrame(d.X, columns=NAMES), d.y) for d in task.sources]
        clf = OnlineTransferClassifier(method).fit_domains(sources)
        return clf, pd.DataFrame(task.X, columns=NAMES), task.y
    return OnlineTransferClassifier(method).fit_domains(task.sources), task.X, task.y


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("method", ["hedgerow", "oddm"])
def test_a_logged_model_goes_on_where_it_was(method, named):
    clf, X, y = fitted(method, named)
    clf.partial_fit(X[:20], y[:20])
    with mlflow.start_run():
        info = flavour.log_model(clf, "m")
    again = flavour.load_model(info.model_uri)
    assert_same_state(state_of(again), state_of(clf))
    rows = X if not named else X.to_numpy()
    np.testing.assert_array_equal(
        again.predict_then_learn(rows[20:], y[20:]), clf.predict_then_learn(rows[20:], y[20:])
    )


@pytest.mark.parametrize("named", [True, False])
def test_pyfunc_predicts_and_knows_its_input(named):
    clf, X, _ = fitted(named=named)
    with mlflow.start_run():
        info = flavour.log_model(clf)
    served = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(served.predict(X), clf.predict(X))
    assert served.get_raw_model().classes_.tolist() == clf.classes_.tolist()
    inputs = served.metadata.signature.inputs
    if named:
        assert inputs.input_names() == NAMES
        np.testing.assert_array_equal(served.predict(X[NAMES[::-1]]), clf.predict(X))  # by name
        with pytest.raises(mlflow.exceptions.MlflowException, match="f3"):
            served.predict(X.drop(columns="f3"))
    else:
        assert inputs.inputs[0].shape == (-1, 6)


def test_nothing_that_was_written_is_a_pickle(store):
    clf, _, _ = fitted()
    with mlflow.start_run():
        flavour.log_model(clf)
    files = [path for path in store.rglob("*") if path.is_file()]
    assert any(path.name == "model.safetensors" for path in files)
    for path in files:
        assert path.suffix not in (".pkl", ".pickle", ".joblib")
        if path.suffix == ".yaml":  # some text begins as a pickle may
            assert yaml.safe_load(path.read_text(encoding="utf-8"))
            continue
        with pytest.raises(NO_PICKLE):
            _only_names(path)


class _only_names(pickle.Unpickler):
    """Reads a file as a pickle without making anything."""

    def __init__(self, path: Path):
        with path.open("rb") as file:
            super().__init__(file)
            self.load()

    def find_class(self, module, name):
        raise AssertionError(f"a pickle that makes {module}.{name}")


@pytest.mark.filterwarnings(
    "ignore:Operation with range"
)  # of MLflow's with an example and pandas 3
def test_a_pipeline_is_logged_as_a_whole():
    _, X, y = fitted()
    model = make_online_pipeline(StandardScaler(), OnlineTransferClassifier("homotlms")).fit(X, y)
    with mlflow.start_run():
        info = flavour.log_model(model, input_example=X[:2])
    again = flavour.load_model(info.model_uri)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(
        mlflow.pyfunc.load_model(info.model_uri).predict(X), model.predict(X)
    )


def test_a_registered_model():
    clf, X, _ = fitted()
    with mlflow.start_run():
        flavour.log_model(clf, registered_model_name="trees")
    np.testing.assert_array_equal(flavour.load_model("models:/trees/1").predict(X), clf.predict(X))


def test_save_model_to_a_folder(tmp_path):
    clf, X, _ = fitted()
    flavour.save_model(
        clf, str(tmp_path / "here"), pip_requirements=["hedgerow"], metadata={"site": "a"}
    )
    wanted = (tmp_path / "here" / "requirements.txt").read_text().splitlines()
    assert "hedgerow" in wanted
    assert mlflow.models.Model.load(str(tmp_path / "here")).metadata == {"site": "a"}
    np.testing.assert_array_equal(
        flavour.load_model(str(tmp_path / "here")).predict(X), clf.predict(X)
    )
    with pytest.raises(InputError, match="give a new folder"):
        flavour.save_model(clf, str(tmp_path / "here"))
    with pytest.raises(InputError, match="StandardScaler: give an OnlineTransferClassifier"):
        flavour.save_model(StandardScaler(), str(tmp_path / "there"))
    assert not (tmp_path / "there").exists()


# -- logging by itself ----------------------------------------------------------------------------------------------


def history(run, name):
    return [(m.step, m.value) for m in mlflow.MlflowClient().get_metric_history(run, name)]


def test_autolog_in_a_run():
    flavour.autolog()
    with mlflow.start_run() as run:
        clf, X, y = fitted(named=False)
        said = clf.predict_then_learn(X[:30], y[:30])
        clf.predict_then_learn(X[30:], y[30:])
    data = mlflow.get_run(run.info.run_id).data
    assert data.params == {
        "method": "homotlms", "reading": "general", "sources": "s0, s1", "features": "6", "classes": "3"
    }  # fmt: skip
    steps, shares = zip(*history(run.info.run_id, "mistakes"), strict=True)
    assert steps == tuple(range(1, 51))
    assert shares[29] == pytest.approx((said != y[:30]).mean())
    assert shares[-1] == pytest.approx(clf.mistakes_ / clf.seen_)
    lately = dict(history(run.info.run_id, "mistakes_lately"))
    assert [lately[t + 1] for t in range(30)] == (said != y[:30]).astype(float).tolist()
    assert history(run.info.run_id, "bound")[-1] == (50, pytest.approx(clf.bound_))


def test_autolog_makes_a_run_of_a_fit_and_the_stream_belongs_to_it():
    flavour.autolog(log_models=True)
    clf, X, y = fitted(named=False)
    assert mlflow.active_run() is None
    clf.partial_fit(X[:20], y[:20])
    for i in range(20, 30):
        clf.learn_one(X[i], y[i])
    flavour.log_progress(clf)
    (run,) = mlflow.search_runs(output_format="list")
    shares = history(run.info.run_id, "mistakes")
    assert [step for step, _ in shares] == [20, 30]
    assert shares[-1][1] == pytest.approx(clf.mistakes_ / 30)
    (logged,) = mlflow.search_logged_models(output_format="list")
    assert flavour.load_model(logged.model_uri).seen_ == 0


def test_rows_learned_one_at_a_time_are_a_point_every_hundred_labels():
    flavour.autolog()
    clf, _, _ = fitted(named=False)
    task = make_task(1, stream=230, missing=0)
    shares = {}
    for x, label in zip(task.X, task.y, strict=True):
        clf.learn_one(x, label)
        shares[clf.seen_] = clf.mistakes_ / clf.seen_
    (run,) = mlflow.search_runs(output_format="list")
    assert history(run.info.run_id, "mistakes") == [
        (step, pytest.approx(shares[step])) for step in (100, 200)
    ]
    assert [step for step, _ in history(run.info.run_id, "bound")] == [100, 200]


def test_a_long_stream_is_a_hundred_points_and_rows_without_labels_are_no_points():
    flavour.autolog()
    clf, _, _ = fitted(named=False)
    task = make_task(1, stream=1000, missing=0.3)
    clf.predict_then_learn(task.X, task.y)
    (run,) = mlflow.search_runs(output_format="list")
    shares = history(run.info.run_id, "mistakes")
    assert len(shares) == 100
    assert shares[-1] == (clf.seen_, pytest.approx(clf.mistakes_ / clf.seen_))
    assert clf.seen_ == sum(label is not None for label in task.y)


def test_disabled_it_logs_nothing():
    flavour.autolog()
    flavour.autolog(disable=True)
    clf, X, y = fitted(named=False)
    clf.predict_then_learn(X, y)
    assert mlflow.search_runs(output_format="list") == []


def test_a_regressor_is_logged_loaded_and_served_and_logs_its_error():
    task = make_task(0)
    y = task.X @ np.arange(task.X.shape[1])
    flavour.autolog()
    with mlflow.start_run() as run:
        reg = OnlineTransferRegressor().fit_domains(
            [Domain(d.name, d.X, d.X.sum(axis=1)) for d in task.sources]
        )
        reg.predict_then_learn(task.X[:30], y[:30])
        info = flavour.log_model(reg, "m")
    logged = mlflow.get_run(run.info.run_id).data
    assert logged.metrics["rmse"] == pytest.approx(reg.rmse_)
    assert logged.metrics["coverage"] == pytest.approx(reg.coverage_[0.9])
    assert logged.params["coverage"] == "0.9"
    again = flavour.load_model(info.model_uri)
    np.testing.assert_array_equal(again.predict(task.X), reg.predict(task.X))
    served = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_allclose(served.predict(task.X), reg.predict(task.X))


def test_a_model_of_tables_is_served_with_its_own_columns(tmp_path):
    frame = pd.DataFrame({"city": ["Oslo", "Rome"] * 30, "size": [1.0, np.nan, 3.0] * 20})
    clf = OnlineTransferClassifier().fit(frame, ["x", "y"] * 30, sample_domain=[0, 1, 1] * 20)
    flavour.save_model(clf, tmp_path / "m")
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(served.predict(frame), clf.predict(frame))
