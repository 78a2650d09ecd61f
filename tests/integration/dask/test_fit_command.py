"""`hedgerow fit` with sources in partitions: the model of memory, what is said, and when it goes there by itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.command import COMMAND, environment

from hedgerow import OnlineTransferClassifier
from hedgerow.cli import memory
from hedgerow.core.errors import InputError


def table(rows: int, shift: float, seed: int) -> pd.DataFrame:
    X = np.random.default_rng(seed).normal(size=(rows, 4))
    return pd.DataFrame(X + shift, columns=list("abcd")).assign(y=np.where(X[:, 0] > 0, "up", "down"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    for day in range(3):
        table(200, 0.0, day).to_parquet(tmp_path / "site" / f"{day}.parquet")
    table(40, 1.0, 7).drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def fit(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = ["fit", "--source", "site/", "--label", "y", "--unlabelled", "new.csv", *more]
    return subprocess.run(
        [*COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=120, env=environment()
    )


def test_a_folder_in_partitions_makes_the_model_of_memory_and_says_so(folder: Path) -> None:
    common = ("--method", "hedgerow-linear")
    done = fit(folder, *common, "-o", "parts.safetensors", "--engine", "dask://local:2")
    assert done.returncode == 0, done.stderr
    assert "fitted from statistics on dask://local:2: 4 passes over 3 partitions" in done.stdout
    assert fit(folder, *common, "-o", "memory.safetensors").returncode == 0
    rows = table(300, 1.0, 8).drop(columns="y")
    models = [OnlineTransferClassifier.load(folder / f"{name}.safetensors") for name in ("parts", "memory")]
    assert models[0].predict(rows).tolist() == models[1].predict(rows).tolist()
    assert models[0].source_names_ == models[1].source_names_ == ["site"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--engine", "dusk"), "error: --engine 'dusk': use local, dask"),
        (("--engine", "dask", "--method", "oddm"), "error: method='oddm' learns its sources row by row"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(folder: Path, more: tuple[str, ...], words: str) -> None:
    done = fit(folder, *more, "-o", "m.safetensors")
    assert done.returncode == 2
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
    assert not (folder / "m.safetensors").exists()


def test_when_it_goes_to_partitions_by_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [folder / "site"]
    size = memory.size_of(sources)
    assert size == 600 * 5 * 8
    assert memory.choose_engine(sources, "hedgerow-linear", None) == ("local", "")
    few = folder / "meminfo"
    few.write_text("MemTotal: 9 kB\nMemAvailable:       40 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", few)
    engine, why = memory.choose_engine(sources, "hedgerow-linear", None)
    assert engine == "dask"
    assert "--engine local" in why
    assert memory.choose_engine(sources, "hedgerow-linear", "local") == ("local", "")
    assert memory.choose_engine(sources, "oddm", None) == ("local", "")  # it needs the rows
    assert memory.choose_engine([folder / "new.csv"], "hedgerow-linear", None) == ("local", "")
    with pytest.raises(InputError, match="--engine 'local:2'"):
        memory.choose_engine(sources, "hedgerow", "local:2")
