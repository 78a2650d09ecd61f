"""The same encoder on the command line, in the service, in the fleet and in a journal."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.command import COMMAND, environment
from support.messy import messy

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.fleet import Fleet
from hedgerow.live import LiveModel

A = messy(80, 0)
B = messy(70, 1, 3.0)
TARGET = messy(60, 2, 6.0)
X = TARGET.drop(columns="bought")
Y = TARGET["bought"].to_numpy()
WRITE = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "parquet": lambda table, path: table.to_parquet(path),
    "jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
}


def hedgerow(*words):
    done = [*COMMAND, *map(str, words)]
    return subprocess.run(
        done, capture_output=True, text=True, timeout=300, env=environment(COLUMNS="200")
    )


@pytest.fixture(scope="module")
def clf():
    return OnlineTransferClassifier().fit_domains(
        [Domain(name, t.drop(columns="bought"), t["bought"]) for name, t in (("a", A), ("b", B))]
    )


@pytest.mark.parametrize("suffix", WRITE)
def test_two_commands_lead_from_messy_files_to_predictions(tmp_path, clf, suffix):
    for name, table in (("a", A), ("b", B), ("stream", TARGET)):
        WRITE[suffix](table, tmp_path / f"{name}.{suffix}")
    a, b, stream = (tmp_path / f"{name}.{suffix}" for name in ("a", "b", "stream"))
    model = tmp_path / "m.safetensors"
    out = tmp_path / "p.jsonl"
    done = hedgerow("fit", "--source", a, "--source", b, "--label", "bought", "-o", model)
    assert done.returncode == 0, done.stderr
    assert "left out, id-like: customer_id" in done.stdout
    done = hedgerow("run", "-m", model, "--input", stream, "--label", "bought", "--output", out)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line)["prediction"] for line in out.read_text().splitlines()]
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    assert said == again.predict_then_learn(X, Y).tolist()


def test_a_bad_cell_of_a_stream_is_a_dead_letter_and_those_of_sources_come_together(tmp_path, clf):
    clf.save(tmp_path / "m.safetensors")
    bad = TARGET.astype(object)
    bad.loc[3, "age"] = "old"
    bad.loc[5, "when"] = "soon"
    bad.to_csv(tmp_path / "s.csv", index=False)
    done = hedgerow("run", "-m", tmp_path / "m.safetensors", "--input", tmp_path / "s.csv", "--label", "bought",
                    "--output", tmp_path / "p.jsonl")  # fmt: skip
    assert done.returncode == 0
    letters = [
        json.loads(line) for line in (tmp_path / "p.jsonl.bad.jsonl").read_text().splitlines()
    ]
    assert [(letter["line"], letter["reason"].split(";")[0]) for letter in letters] == [
        (5, "column 'age': 'old' is not a number"),
        (7, "column 'when': 'soon' is not a date as in the other rows"),
    ]
    done = hedgerow(
        "fit", "--source", tmp_path / "s.csv", "--label", "bought", "-o", tmp_path / "n.safetensors"
    )
    assert done.returncode == 2
    assert "2 problems" in done.stderr
    assert "line 5, column 'age': 'old' is not a number" in done.stderr
    assert "line 7, column 'when': 'soon' is not a date" in done.stderr
    done = hedgerow("fit", "--source", tmp_path / "s.csv", "--label", "bought", "-o", tmp_path / "n.safetensors",
                    "--column", "drop=age", "--column", "drop=when", "--column", "text=note")  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = hedgerow("inspect", tmp_path / "n.safetensors").stdout
    assert "text, words hashed to 256 places" in shown
    assert "left out: dropped" in shown


def test_a_journal_keeps_gaps_and_goes_on(tmp_path, clf):
    one = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    rows = X.to_dict("records")
    with LiveModel.create(tmp_path / "live", clf) as live:
        for i, row in enumerate(rows[:20]):
            assert live.predict(row, f"e{i}").label == one.predict_one(row)
            live.label(f"e{i}", Y[i])
            one.learn_one(row, Y[i])
        assert live.predict(rows[3], "e3").repeated
    with LiveModel.open(tmp_path / "live") as live:
        assert live.predict(rows[20], "e20").label == one.predict_one(rows[20])
        live.export(tmp_path / "events.jsonl")
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    gaps = [event["features"]["age"] is None for event in events[:20]]
    assert gaps == X["age"][:20].isna().tolist()


def test_a_fleet_takes_tables(clf):
    fleet = Fleet(clf)
    alone = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    fleet.learn(["k"] * 30, X[:30], Y[:30])
    alone.partial_fit(X[:30], Y[:30])
    assert fleet.predict(["k"] * 30, X[30:]).tolist() == alone.predict(X[30:]).tolist()
    assert fleet["k"].predict_one(X.iloc[40].to_dict()) == alone.predict_one(X.iloc[40].to_dict())


def test_the_service_takes_objects_of_columns(clf):
    from hedgerow.service.models import Entry
    from hedgerow.service.schemas import Problem

    entry = Entry("site", Path("site"), table=clf.table_)
    rows = json.loads(X[:5].to_json(orient="records"))
    np.testing.assert_array_equal(entry.rows(rows), clf.as_matrix(X[:5]))
    with pytest.raises(Problem) as caught:
        entry.rows([{"age": "old"}, {"q": 1}, [1.0]])
    assert [error.field for error in caught.value.errors] == [
        "instances[0].age",
        "instances[1]",
        "instances[2]",
    ]
    assert pd.isna(entry.rows([{"city": "Oslo"}])[0]).any()
