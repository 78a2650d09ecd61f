"""Sources of `hedgerow fit` that are more than one plain file."""

from __future__ import annotations

import gzip
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from hedgerow import OnlineTransferClassifier
from hedgerow.cli.fit_files import check_output, unique_names
from hedgerow.core.errors import InputError


def test_a_split_and_packed_source_makes_the_same_model(files, hedgerow, tmp_path):
    header, *rows = (files / "shop.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    for folder in ("shop", "new"):
        (tmp_path / folder).mkdir()
    for day, part in enumerate((rows[:30], rows[30:])):
        (tmp_path / "shop" / f"day-{day}.csv").write_text(header + "".join(part), encoding="utf-8")
    (tmp_path / "web.csv.gz").write_bytes(gzip.compress((files / "web.csv").read_bytes()))
    (tmp_path / "new" / "first.csv").write_bytes((files / "new.csv").read_bytes())
    common = ("--label", "kind", "--method", "homotlms", "-o")
    whole = tmp_path / "whole.safetensors"
    split = tmp_path / "split.safetensors"
    for sources, unlabelled, path in (
        ((files / "shop.csv", files / "web.csv"), files / "new.csv", whole),
        ((tmp_path / "shop" / "*.csv", tmp_path / "web.csv.gz"), f"{tmp_path}/new/", split),
    ):
        done = hedgerow(
            "fit --source",
            sources[0],
            "--source",
            sources[1],
            "--unlabelled",
            unlabelled,
            *common,
            path,
        )
        assert done.returncode == 0, done.stderr
    assert OnlineTransferClassifier.load(split).source_names_ == ["shop", "web"]
    assert whole.read_bytes() == split.read_bytes()


def test_names_of_folders_and_patterns():
    paths = [Path("a/*.csv"), Path("b/x.csv.gz"), Path("c/x.jsonl"), Path("day-*.parquet")]
    assert unique_names(paths) == ["a", "b/x", "c/x", "day"]


def test_a_model_is_not_written_over_a_file_of_a_folder(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    for input in (tmp_path, tmp_path / "*.csv"):
        with pytest.raises(InputError, match=r"would overwrite .*a.csv, which is an input"):
            check_output(tmp_path / "a.csv", [input])


def _sites(folder):
    """Two sites and a stream of the second: one with American dates, one with semicolons and decimal commas."""
    rng = np.random.default_rng(0)
    when = [datetime(2013, 1, 1) + timedelta(hours=7 * i) for i in range(120)]
    rows = [
        (t, round(float(rng.normal()) + 2 * (t.hour > 11), 3), "busy" if t.hour > 11 else "calm")
        for t in when
    ]
    american = "".join(f"{t:%m/%d/%Y %H:%M},{size},{kind}\n" for t, size, kind in rows)
    european = "".join(
        f"{t:%d/%m/%Y %H:%M};{str(size).replace('.', ',')};{kind}\n" for t, size, kind in rows
    )
    iso = "".join(f"{t:%Y-%m-%d %H:%M},{size},{kind}\n" for t, size, kind in rows)
    for name, text in {"us": american, "iso": iso}.items():
        (folder / f"{name}.csv").write_text(f"when,size,kind\n{text}", encoding="utf-8")
    (folder / "eu.csv").write_text(f"when;size;kind\n{european}", encoding="utf-8")


def test_each_file_is_read_as_it_is_written(hedgerow, tmp_path):
    _sites(tmp_path)
    for name, sources in {"mixed": ("us", "eu"), "plain": ("iso", "iso")}.items():
        given = [word for source in sources for word in ("--source", tmp_path / f"{source}.csv")]
        done = hedgerow("fit", *given, "--label kind -o", tmp_path / f"{name}.safetensors")
        assert done.returncode == 0, done.stderr
        assert ("eu.csv: fields separated by ';', decimal commas" in done.stderr) == (
            name == "mixed"
        ), done.stderr
    mixed, plain = (
        OnlineTransferClassifier.load(tmp_path / f"{name}.safetensors")
        for name in ("mixed", "plain")
    )
    assert [c.kind for c in mixed.table_.used] == ["date", "number"]
    assert mixed.table_.used[0].start == plain.table_.used[0].start
    lines = []
    for name in ("us", "eu", "iso"):
        done = hedgerow(
            "run -m",
            tmp_path / "mixed.safetensors",
            "-i",
            tmp_path / f"{name}.csv",
            "--label kind -o -",
        )
        assert done.returncode == 0, done.stderr
        assert "skipped" not in done.stderr
        lines.append(done.stdout)
    assert lines[0] == lines[1] == lines[2]


def test_how_a_file_is_written_is_said_once(hedgerow, tmp_path):
    _sites(tmp_path)
    rows = (tmp_path / "eu.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "new.csv").write_text(
        "\n".join(row.rpartition(";")[0] for row in rows), encoding="utf-8"
    )
    common = (
        "--source",
        tmp_path / "us.csv",
        "--unlabelled",
        tmp_path / "new.csv",
        "--label",
        "kind",
    )
    for command in (
        ("fit", "-o", tmp_path / "m.safetensors"),
        ("compare", "--stream", tmp_path / "eu.csv", "--out", tmp_path / "out"),
    ):
        quick = (
            ("--methods", "pa", "--peers", "none")
            if command[0] == "compare"
            else ("--method", "pa")
        )
        done = hedgerow(*command, *common, *quick)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("new.csv: fields separated by ';'") == 1, done.stderr


def test_delimiter_and_decimal_as_they_are_told(hedgerow, tmp_path):
    body = "".join(f"{i % 7},{i % 3}:{i % 5},5:{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "a.csv").write_text("p:q:y\n" + body, encoding="utf-8")
    common = (
        "fit --source",
        tmp_path / "a.csv",
        "--label y -o",
        tmp_path / "m.safetensors",
    )
    done = hedgerow(*common, "--delimiter : --decimal ,")
    assert done.returncode == 0, done.stderr
    model = OnlineTransferClassifier.load(tmp_path / "m.safetensors")
    assert list(model.feature_names_in_) == ["p", "q"]
    for option, value in (("--delimiter", "::"), ("--decimal", ";")):
        done = hedgerow(*common, option, value)
        assert (done.returncode, value in done.stderr) == (2, True)


def test_a_date_that_cannot_be_read_is_said_to_be_one(hedgerow, tmp_path):
    body = "".join(
        f"{i % 28 + 1}-Jan-2013 0{i % 7}:{10 + i},{i % 7}.5,{'ab'[i % 2]}\n" for i in range(40)
    )
    (tmp_path / "a.csv").write_text("when,p,y\n" + body, encoding="utf-8")
    done = hedgerow("fit --source", tmp_path / "a.csv", "--label y -o", tmp_path / "m.safetensors")
    assert "left out, looks like a date" in done.stdout, done.stdout


@pytest.mark.parametrize("days", [12, 28])  # in places of their own, and hashed
def test_a_date_that_is_taken_for_a_category_is_said_to_look_like_one(days, hedgerow, tmp_path):
    dates = [f"{i % days + 1:02}-{i % 2 + 1:02}-13" for i in range(6 * days)]
    body = "".join(f"{date},{i % 7}.5,{'ab'[i % 2]}\n" for i, date in enumerate(dates))
    (tmp_path / "a.csv").write_text("when,p,y\n" + body, encoding="utf-8")
    model = tmp_path / "m.safetensors"
    done = hedgerow("fit --source", tmp_path / "a.csv", "--label y --method pa -o", model)
    assert "column 'when' looks like a date that is written otherwise" in done.stdout.replace(
        "\n", " "
    ), done.stdout
    assert done.stdout.count("'when'") == 1


def test_a_fit_on_a_sample_says_so_and_so_does_inspect(hedgerow, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 2)) * [1, 1000]
    for name, y in (("kinds", np.where(X[:, 0] > 0, "a", "b")), ("numbers", X[:, 0] + 0.5)):
        rows = "".join(f"{p:.3f},{q:.1f},{label}\n" for (p, q), label in zip(X, y, strict=True))
        (tmp_path / f"{name}.csv").write_text("p,q,y\n" + rows, encoding="utf-8")
        model = tmp_path / f"{name}.safetensors"
        fitted = hedgerow("fit --source", tmp_path / f"{name}.csv", "--label y -o", model)
        for done in (fitted, hedgerow("inspect", model)):
            told = " ".join(done.stdout.split())
            assert "60,000 rows of the sources" in told, done.stdout + done.stderr
            assert "50,000" in told
