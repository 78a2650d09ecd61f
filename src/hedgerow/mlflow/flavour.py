"""A flavour of MLflow's models whose content is our own files."""

from __future__ import annotations

import itertools
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from mlflow import pyfunc
from mlflow.entities import Metric, Param, RunTag
from mlflow.models import Model, ModelSignature, infer_signature
from mlflow.models.model import MLMODEL_FILE_NAME, ModelInfo
from mlflow.models.utils import _save_example
from mlflow.tracking import MlflowClient
from mlflow.tracking.artifact_utils import _download_artifact_from_uri
from mlflow.tracking.fluent import active_run
from mlflow.utils.autologging_utils import autologging_integration
from mlflow.utils.autologging_utils.safety import safe_patch
from mlflow.utils.environment import _PythonEnv

from hedgerow import __version__
from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
from hedgerow.core.labels import as_labels, is_missing
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.pipeline import OnlinePipeline

FLAVOUR = "hedgerow"
FILES = {OnlineTransferClassifier: "model.safetensors", OnlinePipeline: "model.pipeline"}


def save_model(
    model: OnlineTransferClassifier | OnlinePipeline,
    path: str,
    mlflow_model: Model | None = None,
    signature: ModelSignature | None = None,
    input_example: Any = None,
    pip_requirements: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Write a fitted model to a new folder that MLflow can load and serve; nothing in it is a pickle.

    Without a `signature` it is inferred from `input_example`, or made of the model's own features and classes.
    """
    kind = next((kind for kind in FILES if isinstance(model, kind)), None)
    if kind is None:
        raise InputError(f"{type(model).__name__}: give an OnlineTransferClassifier or an OnlinePipeline")
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is there already; give a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / FILES[kind])
    described = Model() if mlflow_model is None else mlflow_model
    _save_example(described, input_example, str(folder))
    if signature is None:
        signature = _signature(model, input_example)
    if signature is not None:
        described.signature = signature
    if metadata is not None:
        described.metadata = metadata
    pyfunc.add_to_model(described, "hedgerow.mlflow", data=FILES[kind], python_env="python_env.yaml")
    described.add_flavor(FLAVOUR, hedgerow_version=__version__, data=FILES[kind])
    described.save(str(folder / MLMODEL_FILE_NAME))
    wanted = [f"hedgerow=={__version__}"] if pip_requirements is None else list(pip_requirements)
    (folder / "requirements.txt").write_text("\n".join(wanted) + "\n", encoding="utf-8")
    _PythonEnv.current().to_yaml(str(folder / "python_env.yaml"))


def log_model(model: OnlineTransferClassifier | OnlinePipeline, name: str = "model", **options: Any) -> ModelInfo:
    """Log a fitted model to the active run. Options: those of `save_model` and of `mlflow.models.Model.log`."""
    info: ModelInfo = Model.log(
        artifact_path=None, name=name, flavor=sys.modules["hedgerow.mlflow"], model=model, **options
    )
    return info


def load_model(model_uri: str) -> OnlineTransferClassifier | OnlinePipeline:
    """The model itself, at its place in the stream: it goes on learning."""
    folder = Path(_download_artifact_from_uri(artifact_uri=model_uri))
    flavours = Model.load(str(folder)).flavors
    if FLAVOUR not in flavours:
        raise InputError(f"{model_uri} is no model of hedgerow; it has {', '.join(sorted(flavours))}")
    return _load(folder / str(flavours[FLAVOUR]["data"]))


def _load(file: Path) -> OnlineTransferClassifier | OnlinePipeline:
    kind = next((kind for kind, name in FILES.items() if name == file.name), OnlineTransferClassifier)
    return kind.load(file)


def _load_pyfunc(path: str) -> _Served:
    return _Served(_load(Path(path)))


class _Served:
    """What `mlflow.pyfunc` calls: rows in, labels out."""

    def __init__(self, model: OnlineTransferClassifier | OnlinePipeline) -> None:
        self.model = model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Array:
        named = getattr(self.model, "feature_names_in_", None) is not None or isinstance(self.model, OnlinePipeline)
        return np.asarray(self.model.predict(data if named or not hasattr(data, "to_numpy") else data.to_numpy()))

    def get_raw_model(self) -> OnlineTransferClassifier | OnlinePipeline:
        return self.model


def _signature(model: Any, example: Any) -> ModelSignature | None:
    if example is not None:
        return infer_signature(example, _Served(model).predict(example))
    if isinstance(model, OnlinePipeline):
        return None  # its first transformer alone knows what it reads
    row: Any = np.zeros((1, model.n_features_in_))
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        row = require("pandas", extra="mlflow").DataFrame(row, columns=list(names))
    return infer_signature(row, np.asarray(model.classes_[:1]))


# Parameters and prequential curves, logged to MLflow by themselves.
POINTS = 100  # of a curve, at most, for one call
EVERY = 100  # labels from one point to the next where rows are learned one at a time
_RUNS: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # the run in which a model was fitted


@autologging_integration(FLAVOUR)  # type: ignore[untyped-decorator]
def autolog(log_models: bool = False, disable: bool = False, silent: bool = False, exclusive: bool = False) -> None:
    """From now on log each `fit` (parameters), and each `predict_then_learn`, `partial_fit`, `learn_one` (curves).

    A fit outside of a run makes a run of its own. The stream is logged to the run of the fit, a step a label:
    `mistakes`, the share so far, `mistakes_lately`, since the point before, and `bound`. `log_models` keeps the model
    as it was fitted. Rows that are learned one at a time are logged every 100 labels, and by `log_progress`.
    """

    def fit(original: Any, self: OnlineTransferClassifier, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        run = active_run()
        if run is not None:
            _RUNS[self] = run.info.run_id
            _log_parameters(self, run.info.run_id)
            if log_models:
                log_model(self)
        return found

    def learn_block(original: Any, self: OnlineTransferClassifier, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        seen, mistakes = self.seen_, self.mistakes_
        found = original(self, X, y, *args, **kwargs)
        labels = as_labels(y, "y")
        wrong = (found.labels != labels)[~is_missing(labels)]
        _log_curve(self, wrong, seen, mistakes)
        return found

    def learn(original: Any, self: OnlineTransferClassifier, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        log_progress(self)
        return found

    def learn_row(original: Any, self: OnlineTransferClassifier, *args: Any, **kwargs: Any) -> Any:
        seen = self.seen_
        found = original(self, *args, **kwargs)
        if self.seen_ // EVERY > seen // EVERY:
            log_progress(self)
        return found

    for name in ("fit", "fit_domains"):
        safe_patch(FLAVOUR, OnlineTransferClassifier, name, fit, manage_run=True)
    safe_patch(FLAVOUR, OnlineTransferClassifier, "explain_then_learn", learn_block)
    safe_patch(FLAVOUR, OnlineTransferClassifier, "partial_fit", learn)
    safe_patch(FLAVOUR, OnlineTransferClassifier, "learn_one", learn_row)


def log_progress(clf: OnlineTransferClassifier) -> None:
    """Log mistakes and bound as they are now, to the run in which the model was fitted, or else the active one."""
    if clf.seen_:
        _log_curve(clf, np.zeros(0, dtype=bool), clf.seen_, clf.mistakes_)


def _run_of(clf: OnlineTransferClassifier) -> str | None:
    run = active_run()
    return _RUNS.get(clf) or (None if run is None else run.info.run_id)


def _log_parameters(clf: OnlineTransferClassifier, run: str) -> None:
    given = {name: value for name, value in clf.get_params(deep=False).items() if value is not None}
    given |= {"sources": ", ".join(clf.source_names_), "features": clf.n_features_in_, "classes": len(clf.classes_)}
    params = [Param(name, str(value)[:6000]) for name, value in given.items()]
    MlflowClient().log_batch(run, params=params, tags=[RunTag("hedgerow", __version__)])


def _log_curve(clf: OnlineTransferClassifier, wrong: Array, seen: int, mistakes: int) -> None:
    run, now = _run_of(clf), int(1000 * time.time())
    if run is None:
        return
    points = np.unique(np.linspace(0, len(wrong), POINTS + 1).astype(int))
    so_far = np.r_[0, np.cumsum(wrong)]
    found = []
    for before, at in itertools.pairwise(points):
        step = seen + int(at)
        found.append(Metric("mistakes", (mistakes + int(so_far[at])) / step, now, step))
        found.append(Metric("mistakes_lately", int(so_far[at] - so_far[before]) / int(at - before), now, step))
    if not len(wrong):
        found.append(Metric("mistakes", mistakes / seen, now, seen))
    found.append(Metric("bound", float(clf.bound_), now, clf.seen_))
    MlflowClient().log_batch(run, metrics=found)
