"""Tests call nobody: MLflow would tell its makers what was used, unless this is set before it is imported."""

from __future__ import annotations

import os

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
