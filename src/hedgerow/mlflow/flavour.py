"""A flavour of MLflow's models whose content is our own files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from mlflow import pyfunc
from mlflow.models import Model, ModelSignature, infer_signature
from mlflow.models.model import MLMODEL_FILE_NAME, ModelInfo
from mlflow.models.utils import _save_example
from mlflow.tracking.artifact_utils import _download_artifact_from_uri
from mlflow.utils.environment import _PythonEnv

from hedgerow import __version__
from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
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
