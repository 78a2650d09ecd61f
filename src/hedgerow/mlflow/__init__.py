"""Models in MLflow, as our own files: `log_model`, `load_model`, pyfunc, and `autolog` of parameters and curves.

Needs `pip install 'hedgerow[mlflow]'`; `mlflow-skinny` is enough.
"""

from __future__ import annotations

import warnings

from hedgerow.core.errors import require

with warnings.catch_warnings():  # about type hints of its own
    warnings.simplefilter("ignore")
    require("mlflow.pyfunc", extra="mlflow")

from hedgerow.mlflow.flavour import _load_pyfunc, autolog, load_model, log_model, log_progress, save_model

__all__ = ["_load_pyfunc", "autolog", "load_model", "log_model", "log_progress", "save_model"]
