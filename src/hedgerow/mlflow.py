"""Models in MLflow, as our own files: `log_model`, `load_model`, pyfunc, and `autolog` of parameters and curves.

Needs `pip install 'hedgerow[mlflow]'`; `mlflow-skinny` is enough.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
import weakref
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hedgerow import __version__
from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import as_labels, is_missing
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.methods import named
from hedgerow.pipeline import OnlinePipeline
from hedgerow.regressor import OnlineTransferRegressor
from hedgerow.regressor import load_model as load_file
from hedgerow.task import CLASSES, task_of

with warnings.catch_warnings():  # about type hints of its own
    warnings.simplefilter("ignore")
    require("mlflow.pyfunc", extra="mlflow")
    from mlflow import MlflowClient, active_run, pyfunc
    from mlflow.artifacts import download_artifacts
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.models import Model, ModelSignature, infer_signature
    from mlflow.models.model import ModelInfo
    from mlflow.utils.autologging_utils import autologging_integration
    from mlflow.utils.autologging_utils.safety import safe_patch

__all__ = ["autolog", "load_model", "log_model", "log_progress", "save_model"]

FLAVOUR = "hedgerow"
MODEL = "model.safetensors"  # names of files
PIPELINE = "model.pipeline"
Estimator = OnlineTransferClassifier | OnlineTransferRegressor
POINTS = 100  # of a curve, at most, for one call
EVERY = 100  # labels from one point to the next where rows are learned one at a time
_RUNS: weakref.WeakKeyDictionary[Any, str] = (
    weakref.WeakKeyDictionary()
)  # the run in which a model was fitted


def save_model(
    model: Estimator | OnlinePipeline,
    path: str,
    mlflow_model: Model | None = None,
    signature: ModelSignature | None = None,
    input_example: Any = None,
    pip_requirements: list[str] | None = None,
    **options: Any,
) -> None:
    """Write a fitted model to a new folder that MLflow can load and serve; nothing in it is a pickle.

    Parameters
    ----------
    model
        What to write.
    path
        A folder that does not exist yet, or is empty.
    mlflow_model
        MLflow's description of the model, to be completed; `log_model` gives it.
    signature
        What the model reads and gives; without it it is inferred from `input_example`, or made of the model's own
        features and classes.
    input_example
        Some rows, kept beside the model.
    pip_requirements
        What to install where the model is served; this version of hedgerow if there are none.
    options
        Others of `mlflow.pyfunc.save_model`, `metadata` for instance.

    Raises
    ------
    InputError
        If the model is none of ours, or the folder is not empty.
    """
    if not isinstance(model, Estimator | OnlinePipeline):
        raise InputError(
            f"{type(model).__name__}: give an OnlineTransferClassifier, an OnlineTransferRegressor or an OnlinePipeline"
        )
    if Path(path).exists() and any(Path(path).iterdir()):
        raise InputError(f"{path} already exists; give a new folder")
    name = PIPELINE if isinstance(model, OnlinePipeline) else MODEL
    described = Model() if mlflow_model is None else mlflow_model
    described.add_flavor(FLAVOUR, hedgerow_version=__version__, data=f"data/{name}")
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        # the signature is that of the model, with an example or without
        warnings.filterwarnings("ignore", message=".*An input example was not provided")
        model.save(Path(folder, name))
        pyfunc.save_model(
            path,
            loader_module=__name__,
            data_path=str(Path(folder, name)),
            mlflow_model=described,
            signature=signature or _signature(model, input_example),
            input_example=input_example,
            pip_requirements=pip_requirements or [f"hedgerow=={__version__}"],
            **options,
        )


def log_model(model: Estimator | OnlinePipeline, name: str = "model", **options: Any) -> ModelInfo:
    """Log a fitted model to the active run. Options: those of `save_model` and of `mlflow.models.Model.log`."""
    info: ModelInfo = Model.log(
        artifact_path=None, name=name, flavor=sys.modules[__name__], model=model, **options
    )
    return info


def load_model(model_uri: str) -> Estimator | OnlinePipeline:
    """Load the model itself, at its place in the stream: it goes on learning.

    Parameters
    ----------
    model_uri
        As MLflow writes it: `models:/name/1`, `runs:/<id>/model`, or a folder.

    Raises
    ------
    InputError
        If the model is none of hedgerow's.
    """
    folder = Path(download_artifacts(artifact_uri=model_uri))
    flavours = Model.load(str(folder)).flavors
    if FLAVOUR not in flavours:
        raise InputError(
            f"{model_uri} is not a model of hedgerow; it has {', '.join(sorted(flavours))}"
        )
    return _load_pyfunc(str(folder / flavours[FLAVOUR]["data"])).model


def _load_pyfunc(path: str) -> _Served:
    """By which MLflow loads a model to serve it."""
    return _Served(OnlinePipeline.load(path) if path.endswith(PIPELINE) else load_file(path))


class _Served:
    """What `mlflow.pyfunc` calls: rows in, labels out."""

    def __init__(self, model: Estimator | OnlinePipeline) -> None:
        self.model = model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Array:
        named = getattr(self.model, "feature_names_in_", None) is not None or isinstance(
            self.model, OnlinePipeline
        )
        return np.asarray(
            self.model.predict(data if named or not hasattr(data, "to_numpy") else data.to_numpy())
        )

    def get_raw_model(self) -> Estimator | OnlinePipeline:
        return self.model


def _signature(model: Any, example: Any) -> ModelSignature | None:
    if example is not None:
        return infer_signature(example, _Served(model).predict(example))
    if isinstance(model, OnlinePipeline) or model.table_ is not None:
        return None  # its first transformer, or its encoder, alone knows what it reads
    row: Any = np.zeros((1, model.n_features_in_))
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        row = require("pandas", extra="mlflow").DataFrame(row, columns=list(names))
    return infer_signature(row, np.asarray(getattr(model, "classes_", np.zeros(1))[:1]))


@autologging_integration(FLAVOUR)  # type: ignore[untyped-decorator]
def autolog(
    log_models: bool = False, disable: bool = False, silent: bool = False, exclusive: bool = False
) -> None:
    """From now on log each `fit` (parameters), and each `predict_then_learn`, `partial_fit`, `learn_one` (curves).

    A fit outside of a run makes a run of its own. The stream is logged to the run of the fit, a step a label:
    `mistakes`, the share so far, `mistakes_lately`, since the point before, and `bound`; of a regressor `rmse` and
    `coverage` so far, at the end of each call. `log_models` keeps the model as it was fitted. Rows that are learned one
    at a time are logged every 100 labels, and by `log_progress`.
    """

    def fit(original: Any, self: Estimator, *args: Any, **kwargs: Any) -> Any:
        fitted = original(self, *args, **kwargs)
        run = active_run()
        if run is not None:
            _RUNS[self] = run.info.run_id
            _log_parameters(self, run.info.run_id)
            if log_models:
                log_model(self)
        return fitted

    def learn_block(
        original: Any, self: OnlineTransferClassifier, X: Any, y: Any, *args: Any, **kwargs: Any
    ) -> Any:
        seen = self.seen_
        mistakes = self.mistakes_
        explained = original(self, X, y, *args, **kwargs)
        labels = as_labels(y, "y")
        wrong = explained.classes[explained.codes] != labels
        _log_curve(self, wrong[~is_missing(labels)], seen, mistakes)
        return explained

    def learn(original: Any, self: Estimator, *args: Any, every: int = 1, **kwargs: Any) -> Any:
        seen = self.seen_
        learned = original(self, *args, **kwargs)
        if self.seen_ // every > seen // every:
            log_progress(self)
        return learned

    common = {"partial_fit": learn, "learn_one": partial(learn, every=EVERY)}
    for kind, block in (
        (OnlineTransferClassifier, {"explain_then_learn": learn_block}),
        (OnlineTransferRegressor, {"trace_then_learn": learn}),
    ):
        for name in ("fit", "fit_domains"):
            safe_patch(FLAVOUR, kind, name, fit, manage_run=True)
        for name, patch in {**block, **common}.items():
            safe_patch(FLAVOUR, kind, name, patch)


def log_progress(clf: Estimator) -> None:
    """Log mistakes and bound as they are now, to the run in which the model was fitted, or else the active one.

    Of a regressor: the RMSE, the coverage of the first intervals, and the bound.
    """
    if clf.seen_:
        _log(clf, [(name, value, clf.seen_) for name, value in task_of(clf).progress(clf).items()])


def _log(clf: Estimator, points: list[tuple[str, float, int]]) -> None:
    """Log numbers by name, each after so many labels, and the bound as it is now."""
    active = active_run()
    run = _RUNS.get(clf) or (None if active is None else active.info.run_id)
    now = int(1000 * time.time())
    if run is not None:
        points = [*points, ("bound", float(clf.bound_), clf.seen_)]
        MlflowClient().log_batch(
            run, metrics=[Metric(name, value, now, step) for name, value, step in points]
        )


def _log_parameters(clf: Estimator, run: str) -> None:
    given = clf.get_params(deep=False)
    task = task_of(clf)
    if task is CLASSES:
        given = named(given) | {"options": None}
    parameters = {name: value for name, value in given.items() if value is not None}
    parameters |= {"sources": ", ".join(clf.source_names_), "features": clf.n_features_in_}
    if len(classes := task.classes(clf)):
        parameters["classes"] = len(classes)
    params = [Param(name, str(value)[:6000]) for name, value in parameters.items()]
    MlflowClient().log_batch(run, params=params, tags=[RunTag("hedgerow", __version__)])


def _log_curve(clf: OnlineTransferClassifier, wrong: Array, seen: int, mistakes: int) -> None:
    """The prequential error of a block, `wrong` or not, after so many labels and mistakes, at some points."""
    so_far = np.r_[0, np.cumsum(wrong)]
    points = []
    for before, at in itertools.pairwise(
        np.unique(np.linspace(0, len(wrong), POINTS + 1).astype(int)).tolist()
    ):
        points.append(("mistakes", (mistakes + int(so_far[at])) / (seen + at), seen + at))
        points.append(
            ("mistakes_lately", int(so_far[at] - so_far[before]) / (at - before), seen + at)
        )
    _log(clf, points)
