"""Adaptors are imported when asked for, and say what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

OTHERS = {"river", "skada", "skops", "mlflow"}


@pytest.mark.parametrize(
    ("module", "package"), [("river", "river"), ("mlflow", "mlflow")], ids=lambda name: name
)
def test_without_its_package_an_adaptor_says_what_to_install(module, package):
    code = f"import sys; sys.modules[{package!r}] = None; import hedgerow.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "MissingExtra" in done.stderr
    assert f"pip install 'hedgerow[{module}]'" in done.stderr


def test_the_estimator_imports_none_of_them():
    code = "import sys, hedgerow; hedgerow.OnlineTransferClassifier; import hedgerow.pipeline; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not OTHERS & {name.split(".")[0] for name in done.stdout.split()}


def test_rows_of_numbers_need_no_data_frames(tmp_path):
    """Fit on arrays, save and load ask for no optional package; a data frame asks for narwhals, and says so."""
    code = f"""
import numpy as np
from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core import errors
import_module = errors.importlib.import_module
def no_frames(name, *rest):
    if name.partition(".")[0] in ("narwhals", "pandas", "polars", "pyarrow"):
        raise ImportError(name)
    return import_module(name, *rest)
errors.importlib.import_module = no_frames
X, y = np.random.default_rng(0).normal(size=(40, 3)), ["a", "b"] * 20
clf = OnlineTransferClassifier().fit(X, y)
clf.predict_then_learn(X.tolist(), y)
clf.save({str(tmp_path / "m")!r})
assert OnlineTransferClassifier.load({str(tmp_path / "m")!r}).seen_ == 40
import pandas as pd
Domain("d", pd.DataFrame(X, columns=list("abc")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'hedgerow[files]'" in done.stderr.splitlines()[-1]
    assert "MissingExtra" in done.stderr
