"""A journal looked at and exported, without touching it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pytest
from support.live_models import make_rows

from hedgerow import OnlineTransferClassifier
from hedgerow.cli.journals import inspected
from hedgerow.core.errors import InputError
from hedgerow.live import JournalError, LiveModel, Settings
from hedgerow.live.look import export, look

X, Y = make_rows(7, 200, shift=1.0)


@pytest.fixture
def live(tmp_path, oddm):
    with LiveModel.create(tmp_path / "live", oddm, Settings(snapshot_every=30)) as made:
        made.predict_then_learn(
            X[:50], [None if i % 7 == 0 else int(y) for i, y in enumerate(Y[:50])]
        )
        for i in range(50, 90):
            made.predict(X[i], ids=f"e{i}")
            if i >= 55:
                made.label(f"e{i - 5}", int(Y[i - 5]))
        yield made


def test_a_journal_is_looked_at_while_it_is_in_use(live, tmp_path):
    with look(tmp_path / "live") as journal:
        events = list(journal.events())
        live.predict(X[90], ids="new")  # the look is of one moment
        assert len(list(journal.events())) == len(events) == 90
        summary = journal.summary()
        stats = live.stats()
        for name in ("labels", "mistakes", "window", "expired"):
            assert summary[name] == stats[name]
        assert summary["pending"] == 5
        np.testing.assert_array_equal(np.stack([event.x for event in events]), X[:90])
        assert {event.status for event in events} == {"learned", "pending", "expired"}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_exported_events_are_those_of_the_journal(live, tmp_path, suffix):
    path = tmp_path / f"events.{suffix}"
    assert export(tmp_path / "live", path) == 90
    if suffix == "jsonl":
        found = [json.loads(line) for line in path.read_text().splitlines()]
        rows = [record["features"] for record in found]
    else:
        import pyarrow.parquet as pq

        found = pq.read_table(path).to_pylist()
        rows = [[record[f"feature.x{i}"] for i in range(6)] for record in found]
    np.testing.assert_array_equal(rows, X[:90])
    assert [record["id"] for record in found][50:] == [f"e{i}" for i in range(50, 90)]
    assert [record["label"] for record in found[50:85]] == Y[50:85].tolist()
    assert sum(record["correct"] is False for record in found) == live.stats()["mistakes"]
    with pytest.raises(InputError, match="already"):
        export(tmp_path / "live", path)
    with pytest.raises(InputError, match="jsonl"):
        export(tmp_path / "live", tmp_path / "events.xlsx")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_whatever_was_learned_can_be_exported(tmp_path, suffix):
    """Whole numbers of any size, and classes of models of before; text that is none in UTF-8 is not learned."""
    rows = [{"a": "xyz"[i % 3], "b": i} for i in range(12)]
    one, other = (
        OnlineTransferClassifier("pa").fit(pd.DataFrame(rows), y)
        for y in (["u", "v"] * 6, [0, 1] * 6)
    )
    with LiveModel.create(tmp_path / "live", one) as live:
        with pytest.raises(InputError, match="half of a surrogate pair"):
            live.predict_then_learn({"a": "\ud800", "b": 1}, "u")
        live.predict_then_learn({"a": "Ü", "b": 2**60 + 1}, "u")
        live.replace(other)
        live.predict_then_learn([{"a": "x", "b": 0.5}, {"a": 10**30, "b": 1}], [2**70, 1])
        assert live.export(tmp_path / f"events.{suffix}") == 3


def flipped(folder, table, column, live):
    """One bit of one value of a row, changed behind the journal's back."""
    live.close()
    with sqlite3.connect(folder / "journal.sqlite") as db:
        [(number, value)] = db.execute(
            f"SELECT number, {column} FROM {table} ORDER BY number DESC LIMIT 1"
        ).fetchall()
        other = (
            bytes([value[0] ^ 1, *value[1:]])
            if isinstance(value, bytes)
            else chr(ord(value[0]) ^ 1) + value[1:]
        )
        db.execute(f"UPDATE {table} SET {column} = ? WHERE number = ?", (other, number))
    db.close()


@pytest.mark.parametrize(
    ("table", "column"), [("event", "x"), ("event", "shares"), ("answer", "label")]
)
def test_a_flipped_bit_is_not_exported(live, tmp_path, table, column):
    flipped(tmp_path / "live", table, column, live)
    with pytest.raises(JournalError, match=f"damaged: {table}"):
        export(tmp_path / "live", tmp_path / "events.jsonl")
    assert not (tmp_path / "events.jsonl").exists()


@pytest.mark.parametrize(
    ("table", "column"),
    [("event", "x"), ("event", "votes"), ("answer", "label"), ("history", "point")],
)
def test_inspect_says_that_a_journal_is_damaged(live, tmp_path, table, column):
    assert dict(inspected(tmp_path / "live"))["events"].startswith("90,")
    flipped(tmp_path / "live", table, column, live)
    with pytest.raises(JournalError, match=f"damaged: {table}.*restore the folder"):
        inspected(tmp_path / "live")


def test_a_row_that_is_missing_is_missed(live, tmp_path):
    live.close()
    with sqlite3.connect(tmp_path / "live" / "journal.sqlite") as db:
        db.execute("DELETE FROM answer WHERE number = (SELECT max(number) FROM answer)")
    db.close()
    with pytest.raises(JournalError, match="rows of answer"):
        export(tmp_path / "live", tmp_path / "events.jsonl")


def test_a_journal_without_its_end_is_not_looked_at_as_if_it_were_whole(live, tmp_path):
    shutil.copytree(tmp_path / "live", tmp_path / "cut")
    os.truncate(tmp_path / "cut" / "journal.sqlite-wal", 0)
    with pytest.raises(JournalError, match="newest part is missing"), look(tmp_path / "cut"):
        pass


@pytest.mark.parametrize(
    "opened", [LiveModel.open, lambda folder: export(folder, folder / "events.jsonl")]
)
def test_a_name_in_the_file_that_is_no_text_any_more_is_a_damage_like_any_other(
    live, tmp_path, opened
):
    live.close()
    file = tmp_path / "live" / "journal.sqlite"
    data = file.read_bytes()
    assert data.count(b"shares BLOB") == 1
    file.write_bytes(data.replace(b"shares BLOB", b"sha\xe5es BLOB"))
    with pytest.raises(JournalError, match="damaged"):
        opened(tmp_path / "live")
