"""The examples run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path):
    done = subprocess.run([sys.executable, "-W", "error", path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "mistakes" in done.stdout
