"""Tables as they are: categories, gaps, dates, columns that not everyone has; the rows are those of the estimator."""

from __future__ import annotations

import subprocess

import numpy as np
import pandas as pd
import pytest
from command import COMMAND, environment

from hedgerow import Domain, OnlineTransferClassifier, compare
from hedgerow.comparison.inputs import task_of
from hedgerow.comparison.measures import unpacked
from hedgerow.comparison.stored_task import pack, read_task, write_task
from hedgerow.core.errors import HedgerowError

METHODS = "homotlms,hedgerow-linear"


def messy(n: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size, colour = rng.normal(size=n) + shift, rng.choice(["red", "blue", "green"], n)
    kind = np.where((size - shift > 0) ^ (colour == "red"), "mug", "pan")
    price = np.where(rng.random(n) < 0.2, np.nan, 10 + 3 * (kind == "mug") + rng.normal(size=n))
    sold = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(n), unit="D")
    return pd.DataFrame({"size": size, "colour": colour, "price": price, "sold": sold, "kind": kind})


@pytest.fixture(scope="module")
def frames():
    return {"a": messy(80, 1), "b": messy(80, 2, 0.5).drop(columns="price"), "stream": messy(120, 3, 1.0)}


@pytest.mark.parametrize("method", METHODS.split(","))
def test_rows_of_tables_are_those_of_the_estimator(frames, method):
    found = compare({"a": frames["a"], "b": frames["b"]}, frames["stream"], label="kind", warmup=0.25, methods=method)
    domains = [Domain(name, frames[name].drop(columns="kind"), frames[name]["kind"]) for name in ("a", "b")]
    X, y = frames["stream"].drop(columns="kind"), frames["stream"]["kind"].to_numpy()
    for sources, without in ((domains, ""), (domains[1:], "a")):
        clf = OnlineTransferClassifier(method, random_state=0).fit_domains(sources, Domain("u", X[:30]))
        wrong = clf.predict_then_learn(X[30:], y[30:]) != y[30:]
        [row] = [row for row in found.records if row["variant"] == without]
        assert unpacked(row).tolist() == wrong.tolist()
    assert any("'price' is not in b" in note for row in found.records for note in row["notes"])


def test_files_of_every_kind_and_peers(frames, tmp_path):
    frames["a"].to_csv(tmp_path / "a.csv", index=False)
    frames["stream"].to_parquet(tmp_path / "stream.parquet")
    found = compare(
        [tmp_path / "a.csv"], tmp_path / "stream.parquet", label="kind", time="sold", methods="pa", peers=True
    )
    assert set(found.table["method"]) >= {"pa", "sklearn-sgd", "sklearn-logistic"}
    assert (found.table["mistakes"] < 45).all()
    assert "sold" not in found.task.stream.feature_names
    in_time = frames["stream"].sort_values("sold")["kind"].tolist()
    assert found.task.stream.y.tolist() == in_time


def test_a_stream_that_alone_has_gaps(frames):
    source = frames["a"][["size", "kind"]]
    stream = frames["stream"][["size", "price", "kind"]]
    found = compare([source], stream, label="kind", methods="hedgerow-linear", warmup=0.2)
    assert 0 < found.records[0]["mistakes"] < 60


def test_a_table_is_read_back_as_it_was(frames, tmp_path):
    task = task_of({"a": frames["a"]}, frames["stream"], label="kind", warmup=0.2)
    checksum, content = pack(task)
    write_task(tmp_path, content)
    again = read_task(str(tmp_path), checksum)
    assert again.stream.X.names == task.stream.X.names
    for ours, theirs in zip(again.stream.X.columns, task.stream.X.columns, strict=True):
        assert ours.dtype == theirs.dtype
        assert all(a == b or a != a for a, b in zip(ours, theirs, strict=True))
    assert pack(again)[0] == checksum


def test_a_cell_that_cannot_be_kept_is_named(frames):
    odd = frames["a"].assign(colour=[{1, 2}] * 80)
    with pytest.raises(HedgerowError, match=r"is set; make it text"):
        compare([odd], frames["stream"], label="kind", methods="pa")


def test_the_command_says_which_columns_were_left_out(frames, tmp_path):
    frames["a"].assign(id=[f"r{i}" for i in range(80)]).to_csv(tmp_path / "a.csv", index=False)
    frames["stream"].assign(id=[f"s{i}" for i in range(120)]).to_csv(tmp_path / "new.csv", index=False)
    words = ["compare", "--source", "a.csv", "--stream", "new.csv", "--label", "kind", "--methods", "pa", "--jobs", "1"]
    done = subprocess.run(
        [*COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, env=environment(), timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "left out, id-like: id" in done.stdout
    assert "left out, id-like: id" in (tmp_path / "hedgerow-compare" / "report.html").read_text(encoding="utf-8")
