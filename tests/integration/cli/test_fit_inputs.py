"""Sources of `hedgerow fit` that are more than one plain file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from support.command import Run

from hedgerow import OnlineTransferClassifier
from hedgerow.cli.fit_files import check_output, unique_names
from hedgerow.core.errors import InputError


def test_a_split_and_packed_source_makes_the_same_model(files: Path, hedgerow: Run, tmp_path: Path) -> None:
    header, *rows = (files / "shop.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    for folder in ("shop", "new"):
        (tmp_path / folder).mkdir()
    for day, part in enumerate((rows[:30], rows[30:])):
        (tmp_path / "shop" / f"day-{day}.csv").write_text(header + "".join(part), encoding="utf-8")
    (tmp_path / "web.csv.gz").write_bytes(gzip.compress((files / "web.csv").read_bytes()))
    (tmp_path / "new" / "first.csv").write_bytes((files / "new.csv").read_bytes())
    common = ("--label", "kind", "--method", "homotlms", "-o")
    whole, split = tmp_path / "whole.safetensors", tmp_path / "split.safetensors"
    for sources, unlabelled, path in (
        ((files / "shop.csv", files / "web.csv"), files / "new.csv", whole),
        ((tmp_path / "shop" / "*.csv", tmp_path / "web.csv.gz"), f"{tmp_path}/new/", split),
    ):
        done = hedgerow(
            "fit", "--source", sources[0], "--source", sources[1], "--unlabelled", unlabelled, *common, path
        )
        assert done.returncode == 0, done.stderr
    assert OnlineTransferClassifier.load(split).source_names_ == ["shop", "web"]
    assert whole.read_bytes() == split.read_bytes()


def test_names_of_folders_and_patterns() -> None:
    paths = [Path("a/*.csv"), Path("b/x.csv.gz"), Path("c/x.jsonl"), Path("day-*.parquet")]
    assert unique_names(paths) == ["a", "b/x", "c/x", "day"]


def test_a_model_is_not_written_over_a_file_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    for input in (tmp_path, tmp_path / "*.csv"):
        with pytest.raises(InputError, match=r"would overwrite .*a.csv, which is to be read"):
            check_output(tmp_path / "a.csv", [input])
