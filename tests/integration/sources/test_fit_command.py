"""`hedgerow fit` with sources that are read part by part: when it does so, the model of memory, and what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hedgerow.cli import fit_files as memory
from hedgerow.cli.fit_files import fit_files
from hedgerow.core.errors import InputError


def table(rows: int, shift: float, seed: int) -> pd.DataFrame:
    X = np.random.default_rng(seed).normal(size=(rows, 4))
    return pd.DataFrame(X + shift, columns=list("abcd")).assign(
        y=np.where(X[:, 0] > 0, "up", "down")
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    for day in range(3):
        table(200, 0.0, day).to_parquet(tmp_path / "site" / f"{day}.parquet")
    table(40, 1.0, 7).drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def test_it_reads_part_by_part_where_half_of_the_free_memory_is_not_enough(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [folder / "site"]
    options = {"method": "hedgerow-linear"}
    assert memory.size_of(sources) == 600 * 5 * 8
    assert memory.why_partitioned(sources, "hedgerow-linear") == ""
    whole = fit_files(sources, "y", folder / "new.csv", options)
    little = folder / "meminfo"
    monkeypatch.setattr(memory, "MEMINFO", little)
    for free in (50, 40, 4):
        little.write_text(f"MemTotal: 90 kB\nMemAvailable:       {free} kB\n")
        assert (memory.why_partitioned(sources, "hedgerow-linear") == "") == (free == 50)
    parts = fit_files(sources, "y", folder / "new.csv", options)
    assert parts.notes[0].startswith("read part by part, as the sources take 0.0 GiB of memory")
    assert parts.notes[0].endswith(": 4 passes over 3 parts")
    assert parts.sources == whole.sources == [("site", 600, 2)]
    rows = table(300, 1.0, 8).drop(columns="y")
    assert parts.clf.predict(rows).tolist() == whole.clf.predict(rows).tolist()
    assert memory.why_partitioned(sources, "oddm") == ""  # it needs the rows
    assert memory.why_partitioned([folder / "new.csv"], "hedgerow-linear") == ""
    numbers = folder / "numbers.parquet"
    table(200, 0.0, 1).drop(columns="y").to_parquet(numbers)
    with pytest.raises(
        InputError, match=r"the label 'b' is a number, and a regression needs its sources in memory"
    ):
        fit_files([numbers], "b", None, options)
