"""Adaptors are imported when asked for, and say what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

OTHERS = {"river", "skada", "skops", "mlflow", "capymoa", "jpype"}


@pytest.mark.parametrize(
    ("module", "package"), [("river", "river"), ("mlflow", "mlflow"), ("capymoa", "capymoa")], ids=lambda name: name
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
