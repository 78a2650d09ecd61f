"""The folder of a live model of an earlier version: refused before anything is written; its events can be had."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from hedgerow import OnlineTransferClassifier
from hedgerow.cli.fit_files import fit_files
from hedgerow.live import JournalError, LiveModel
from hedgerow.live.look import export, look

FILES = Path(__file__).parents[2] / "files"
sys.path.insert(0, str(FILES))
from make_journal import LABELS, ROWS  # noqa: E402

LEARNED = [*LABELS[30:45], "hedge"]


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FILES / "journal-4", tmp_path / "live"))


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_is_refused_before_anything_is_written(folder):
    before = content(folder)
    with pytest.raises(
        JournalError, match=r"hedgerow journal 4.*nothing was changed.*export.*--from-journal"
    ):
        LiveModel.open(folder)
    assert content(folder) == before
    with look(folder) as journal, pytest.raises(JournalError, match="cannot be recovered"):
        journal.model()


def test_its_events_are_exported(folder, tmp_path):
    path = tmp_path / "events.jsonl"
    assert export(folder, path) == 20
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["features"] for event in events] == ROWS[30:50]
    assert [event["label"] for event in events] == [*LEARNED, *[None] * 4]
    assert events[15]["status"] == "learned"
    assert events[16]["status"] == "pending"


def test_a_model_is_fitted_that_has_learned_them(folder, tmp_path):
    for name, begin in (("north", 0), ("south", 15)):
        rows = [
            row | {"place": label}
            for row, label in zip(ROWS[begin : begin + 15], LABELS[begin:], strict=False)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = [tmp_path / "north.jsonl", tmp_path / "south.jsonl"]
    fitted = fit_files(sources, "place", None, {"method": "pa"}, journal=folder)
    assert isinstance(fitted.clf, OnlineTransferClassifier)
    assert fitted.clf.seen_ == len(LEARNED)
    assert "hedge" in fitted.clf.classes_.tolist()
