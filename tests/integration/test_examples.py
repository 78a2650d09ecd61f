"""The examples run as they stand."""

from __future__ import annotations

import importlib.util
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command import PYTHON, environment

from hedgerow.align import ALIGNERS
from hedgerow.testing import check_aligner, check_method

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def slow(path: Path) -> bool:
    return path.stem == "spark_fleet"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if slow(path) else (), id=path.stem)
        for path in EXAMPLES
    ],
)
def test_it_runs(path, request):
    if "HEDGEROW_DATA" in path.read_text():
        request.getfixturevalue("data_dir")
    done = subprocess.run(
        [*PYTHON, path], capture_output=True, text=True, timeout=120, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert "mistakes" in done.stdout


def test_the_aligner_of_the_example_obeys_the_laws():
    spec = importlib.util.spec_from_file_location(
        "own_method", EXAMPLES[0].parent / "own_method.py"
    )
    module = importlib.util.module_from_spec(spec)
    with registered_only_here():
        spec.loader.exec_module(module)
        check_aligner(module.PCA(dim=3))
        check_aligner(module.PCA())
        check_method(module.pca, dim=3)


@contextmanager
def registered_only_here():
    try:
        yield
    finally:
        ALIGNERS.unregister("pca")
