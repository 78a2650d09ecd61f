"""kill -9 of the driver and of a worker in mid-batch: every label once (the long version: make bench-spark)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_two_kills_lose_and_double_nothing():
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java: apt-get install openjdk-17-jre-headless")
    words = [sys.executable, "-m", "spark.kills", "--kills", "2", "--events", "3000", "--keys", "60", "--files", "8"]
    path = os.pathsep.join([str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=550, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert '"exact": true' in done.stdout
