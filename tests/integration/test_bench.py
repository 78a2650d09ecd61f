"""Every benchmark runs at its smallest size and writes rows with where they come from; the pages are those of the rows.

Figures of so small runs mean nothing and are not looked at; what does not depend on time is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import pages
from bench.record import Row, latest, record, rows

ROOT = Path(__file__).parents[2]
NEEDS_DATA = ("plain", "jda", "nine", "sources", "join")  # tasks of the paper, tables
SAME = (
    "different",
    "other labels",
    "other predictions",
    "live unlike replay",
    "lost",
)  # whatever the size: 0
pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize("name", [name for name, (module, _) in pages.BENCHMARKS.items() if module])
def test_a_benchmark_runs_and_writes_rows(name, tmp_path, request):
    if name in NEEDS_DATA:
        request.getfixturevalue("data_dir")
    if name == "spark" and shutil.which("java") is None:
        pytest.skip("no Java: apt-get install openjdk-17-jre-headless")
    command = [sys.executable, "-m", "bench", name, "--quick", "--out", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=500, env=os.environ, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = rows(name, tmp_path)
    assert lines == latest(lines)
    for line in lines:
        assert line["machine"]
        assert line["command"].startswith(f"python -m bench {name}")
        assert line["load"] >= 0
        numbers = [
            v
            for v in line["figures"].values()
            if isinstance(v, int | float) and not isinstance(v, bool)
        ]
        assert numbers
        assert np.isfinite(numbers).all(), line["figures"]
        assert [line["figures"].get(key, 0) for key in SAME] == [0] * len(SAME)
    assert len(list(pages.table(lines))) == len(lines) + 2


def test_a_row_is_kept_with_where_it_comes_from(tmp_path):
    for value in (1.0, 2.0):
        record("some", Row({"size": 1}, {"x": value}, {"x": ">= 2"}), "make some", tmp_path)
    (newest,) = latest(rows("some", tmp_path))
    assert newest["figures"] == {"x": 2.0}
    assert newest["command"] == "make some"
    table = list(pages.table(rows("some", tmp_path)))
    assert table[0] == "| size | x (>= 2) |"
    assert table[2:] == ["| 1 | **1** |", "| 1 | 2 |"]


def test_the_page_is_that_of_the_rows(tmp_path, monkeypatch):
    """If it fails: python -m bench --pages."""
    (tmp_path / "bench").mkdir()
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    pages.write()
    assert (tmp_path / "bench" / "RESULTS.md").read_text() == (
        ROOT / "bench" / "RESULTS.md"
    ).read_text()


def test_the_walk_of_a_row_is_traced():
    command = [sys.executable, "-m", "bench.walk", "--methods", "hedgerow", "--paths", "live"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=200, check=True
    )
    assert re.search(r"predict_one: \d+ files, \d+ hops back", done.stdout)
    assert "learn_one" in done.stdout


def test_another_commit_is_taken_from_the_history():
    from bench.sides import checkout

    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    with checkout("HEAD") as source:
        assert (source / "hedgerow" / "__init__.py").is_file()
    assert not source.exists()
    lacking = r"commit 0000000 cannot be taken from .*git fetch --unshallow"
    with pytest.raises(RuntimeError, match=lacking), checkout("0000000"):
        pass


def test_what_goes_wrong_on_a_side_is_told(tmp_path):
    from bench.sides import HERE, Side, Stream

    stream = Stream.of("digits/shifted", 60)
    with Side(HERE, stream) as side, pytest.raises(RuntimeError, match="no-such-method"):
        side.fit("no-such-method")
    with pytest.raises(RuntimeError, match="ended with 1"), Side(tmp_path, stream):
        pass  # a folder without the library
    assert json.dumps(stream.lengthened(200).y.tolist())
