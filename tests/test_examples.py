"""The examples run as they stand."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from hedgerow.align import ALIGNERS
from hedgerow.checks import check_aligner, check_method
from hedgerow.methods import METHODS

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path):
    done = subprocess.run([sys.executable, "-W", "error", path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "mistakes" in done.stdout


def test_the_aligner_of_the_example_obeys_the_laws():
    spec = importlib.util.spec_from_file_location("own_method", EXAMPLES[0].parent / "own_method.py")
    module = importlib.util.module_from_spec(spec)
    with registered_only_here():
        spec.loader.exec_module(module)
        check_aligner(module.PCA(dim=3))
        check_aligner(module.PCA())
        check_method("pca", dim=3)


@contextmanager
def registered_only_here():
    try:
        yield
    finally:
        ALIGNERS.unregister("pca")
        METHODS.unregister("pca")
