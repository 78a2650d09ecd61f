"""Runs with a journal: what goes on, what is refused, where labels and bad rows go. In this process, for speed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import threading
from dataclasses import replace

import pytest
from support.streams import NAMES, rows, write_csv

from hedgerow import OnlineTransferClassifier
from hedgerow.cli.fit_files import fit_files
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.live import LiveModel
from hedgerow.live.journal import Steps
from hedgerow.live.look import look
from hedgerow.run import sources
from hedgerow.run.job import Job
from hedgerow.run.loop import run


def go(job):
    said = []
    code = run(job, said.append, lambda _: None)
    return code, "\n".join(said)


def found(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def job(folder, tmp_path):
    return Job(
        folder / "model.safetensors", str(folder / "stream.csv"), str(tmp_path / "out.jsonl"), "y", id="id",
        journal=tmp_path / "journal", settings={"snapshot_every": 100},
    )  # fmt: skip


def test_the_same_command_again_adds_nothing_and_a_longer_file_its_rows(job, folder, tmp_path):
    stream = tmp_path / "stream.csv"
    lines = (folder / "stream.csv").read_text().splitlines(keepends=True)
    stream.write_text("".join(lines[:301]))
    job = replace(job, input=str(stream))
    assert go(job)[0] == 0
    first = (tmp_path / "out.jsonl").read_bytes()
    code, said = go(job)
    assert (code, "going on with the journal" in said) == (0, True)
    assert (tmp_path / "out.jsonl").read_bytes() == first
    stream.write_text("".join(lines))  # it has grown
    assert go(job)[0] == 0
    assert (tmp_path / "out.jsonl").read_bytes().startswith(first)
    assert [record["id"] for record in found(tmp_path / "out.jsonl")] == [
        f"r{i}" for i in range(600)
    ]


def test_predictions_are_those_without_a_journal(job, tmp_path):
    go(job)
    with_journal = (tmp_path / "out.jsonl").read_bytes()
    go(replace(job, journal=None, output=str(tmp_path / "plain.jsonl")))
    assert (tmp_path / "plain.jsonl").read_bytes() == with_journal


def test_another_stream_model_or_output_is_refused(job, folder, tmp_path):
    stream = tmp_path / "stream.csv"
    shutil.copy(folder / "stream.csv", stream)
    job = replace(job, input=str(stream))
    go(job)
    X, y = rows(77, 700, 0.8)
    write_csv(stream, X, y, ids=True)
    with pytest.raises(InputError, match="not the stream"):
        go(job)
    shutil.copy(folder / "stream.csv", stream)
    with pytest.raises(InputError, match="not part of the input any more"):
        go(replace(job, input=str(folder / "stream.csv")))
    shutil.copy(folder / "model.safetensors", tmp_path / "model.safetensors")
    go(replace(job, model=tmp_path / "model.safetensors"))  # the same content
    clf = OnlineTransferClassifier.load(folder / "model.safetensors")
    clf.learn_one(X[0], y[0])
    clf.save(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="another model"):
        go(replace(job, model=tmp_path / "model.safetensors"))
    (tmp_path / "full.jsonl").write_text("something\n")
    with pytest.raises(InputError, match="has content"):
        go(replace(job, output=str(tmp_path / "full.jsonl")))
    written = (tmp_path / "out.jsonl").read_text()
    (tmp_path / "out.jsonl").write_text(written + "something else\n")
    with pytest.raises(InputError, match="changed or replaced"):
        go(job)
    (tmp_path / "out.jsonl").write_text(written[:100])  # as a crash may leave it
    go(job)
    assert (tmp_path / "out.jsonl").read_text() == written


def test_an_output_with_content_and_a_new_journal_is_refused(job, tmp_path):
    (tmp_path / "out.jsonl").write_text("something\n")
    with pytest.raises(InputError, match="new journal begins a new output"):
        go(job)
    with pytest.raises(InputError, match="without a journal"):
        go(replace(job, append=True))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("journal", [True, False])
def test_labels_of_a_file_come_late_and_in_any_order(job, folder, tmp_path, suffix, journal):
    _, y = rows(4, 600, 0.8)
    order = [*range(599, 300, -1), *range(301), 5, 7]  # two of them twice
    labels = tmp_path / f"labels.{suffix}"
    if suffix == "csv":
        labels.write_text(
            "id,truth\n" + "".join(f"r{i},{y[i]}\n" for i in order) + "nobody,c1\nr3,c9x\nr4,\n"
        )
    else:
        lines = [json.dumps({"id": f"r{i}", "label": y[i], "by": "hand"}) for i in order]
        extra = [
            {"id": "nobody", "label": "c1", "by": ""},
            {"id": "r3", "label": "c9x"},
            {"id": "r4", "label": None},
        ]
        labels.write_text("\n".join([*lines, *map(json.dumps, extra)]) + "\n")
    late = replace(
        job, input=str(folder / "unlabelled.csv"), label=None, labels=labels, journal=job.journal if journal else None,
        save=None if journal else tmp_path / "after.safetensors", new_classes="refuse",
    )  # fmt: skip
    code, said = go(late)
    assert code == 0
    assert "in 600 labelled" in said
    reasons = [record["reason"] for record in found(tmp_path / "out.jsonl.bad.jsonl")]
    assert len(reasons) == 3, reasons
    assert any("no row has the id 'nobody'" in reason for reason in reasons)
    if journal:
        with LiveModel.open(job.journal) as live:
            assert (live.stats()["labels"], live.stats()["pending"]) == (600, 0)
    else:
        assert OnlineTransferClassifier.load(tmp_path / "after.safetensors").seen_ == 600


def test_labels_that_are_written_while_it_runs_are_taken_whole(job, folder, tmp_path):
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"id": "r0", "label": "c1"}\n{"id": "r1", "lab')  # half a line
    late = replace(job, input=str(folder / "unlabelled.csv"), label=None, labels=labels)
    go(replace(late, journal=None))  # nobody goes on from here: it is as bad as any other line
    assert found(tmp_path / "out.jsonl.bad.jsonl")[0]["reason"].startswith("not JSON")


def test_late_labels_in_the_stream_itself(job, tmp_path):
    X, y = rows(4, 60, 0.8)
    with (tmp_path / "stream.jsonl").open("w") as file:
        for i, x in enumerate(X.tolist()):
            file.write(json.dumps({"id": f"r{i}", **dict(zip(NAMES, x, strict=True))}) + "\n")
            if i >= 10:
                file.write(json.dumps({"id": f"r{i - 10}", "y": y[i - 10]}) + "\n")
    for journal, output in ((job.journal, "out.jsonl"), (None, "plain.jsonl")):
        code, said = go(
            replace(
                job,
                input=str(tmp_path / "stream.jsonl"),
                journal=journal,
                output=str(tmp_path / output),
            )
        )
        assert (code, "in 50 labelled" in said) == (0, True), said
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "plain.jsonl").read_bytes()


def test_formats_folders_and_bad_rows(job, folder, tmp_path):
    lines = (folder / "stream.csv").read_text().splitlines(keepends=True)
    parts = tmp_path / "days"
    parts.mkdir()
    (parts / "day-1.csv.gz").write_bytes(gzip.compress("".join(lines[:201]).encode()))
    broken = [*lines[201:250], "x,not a number" + ",1" * 8 + "\n", *lines[250:401], lines[220]]
    (parts / "day-2.csv").write_text(lines[0] + "".join(broken))
    code, said = go(replace(job, input=str(parts)))
    assert (code, "2 bad rows skipped" in said or "1 bad row skipped" in said) == (0, True), said
    assert [record["id"] for record in found(tmp_path / "out.jsonl")] == [
        f"r{i}" for i in range(400)
    ]  # each once
    bad = found(tmp_path / "out.jsonl.bad.jsonl")
    assert [record["line"] for record in bad] == [51]
    assert "day-2.csv" in bad[0]["file"]
    assert "not a number" in bad[0]["reason"]


def test_a_bad_row_that_stops_the_run_leaves_a_journal_that_can_go_on(job, folder, tmp_path):
    lines = (folder / "stream.csv").read_text().splitlines(keepends=True)
    stream = tmp_path / "stream.csv"
    stream.write_text("".join([*lines[:51], "bad" + ",1" * 9 + ",1\n", *lines[51:101]]))
    stop = replace(job, input=str(stream), on_error="stop")
    with pytest.raises(InputError, match="line 52"):
        go(stop)
    assert len(found(tmp_path / "out.jsonl")) == 50
    assert go(replace(stop, on_error="skip"))[0] == 0
    assert [record["id"] for record in found(tmp_path / "out.jsonl")] == [
        f"r{i}" for i in range(100)
    ]


def test_choices_that_exclude_each_other_are_refused(job, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("id,y\n")
    for change, words in (
        ({"labels": labels}, "give one of them"),
        ({"labels": labels, "label": None, "id": None}, "--id"),
        ({"labels": tmp_path / "none.csv", "label": None}, "no file of labels"),
        ({"journal": None, "accept_loss": True}, "--journal"),
        ({"output": "kafka://host/topic"}, "redis://"),
    ):
        with pytest.raises(InputError, match=words):
            go(replace(job, **change))


TABLE = [
    {
        "width": None if i % 7 == 3 else i % 10 + 0.5,
        "count": i * 7 % 50,
        "colour": ["red", "green", "00"][i % 3],
    }
    | {"y": ["a", "b"][i % 10 > 4], "id": f"t{i}"}
    for i in range(400)
]
FORMATS = ("csv", "jsonl", "parquet")


def write_table(path, table):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    elif path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(table), path)
    else:
        lines = [
            ",".join("" if cell is None else str(cell) for cell in row.values()) for row in table
        ]
        path.write_text("\n".join([",".join(table[0]), *lines]) + "\n")
    return path


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("careful", [False, True])
def test_rows_of_a_table_are_kept_as_they_came_and_can_be_fitted_on_again(
    tmp_path, suffix, careful
):
    columns = [name for name in TABLE[0] if name != "id"]
    source = write_table(
        tmp_path / "source.csv", [{name: row[name] for name in columns} for row in TABLE[:200]]
    )
    model = tmp_path / "model.safetensors"
    stream = TABLE[200:]
    fit_files([source], "y", None, {"method": "hedgerow-linear"}).clf.save(model)
    if careful:  # a bad row among them is read with care, and so are its neighbours
        stream = [*stream[:100], {**stream[0], "width": "wide", "id": "bad"}, *stream[100:]]
        stream = [
            {**row, "width": row["width"] if row["width"] is None else str(row["width"])}
            for row in stream
        ]
    path = write_table(tmp_path / f"stream.{suffix}", stream)
    job = Job(
        model, str(path), str(tmp_path / "out.jsonl"), "y", id="id", journal=tmp_path / "journal"
    )
    assert go(job)[0] == 0
    names = ["width", "count", "colour"]
    wanted = [row for row in stream if row["id"] != "bad"]
    if suffix == "csv":  # in which all cells are text: numbers where the model's column has numbers
        wanted = [
            {**row, "width": None if row["width"] is None else float(row["width"])}
            for row in wanted
        ]
    with look(tmp_path / "journal") as journal:
        kept = {event.id: event.features for event in journal.events()}
    assert kept == {row["id"]: {name: row[name] for name in names} for row in wanted}
    again = fit_files([source], "y", None, {"method": "hedgerow-linear"}, tmp_path / "journal").clf
    assert again.seen_ == len(wanted)
    go(replace(job, journal=None, output=str(tmp_path / "plain.jsonl")))
    assert (tmp_path / "plain.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


@pytest.mark.parametrize("endless", [False, True])
def test_labels_of_rows_that_never_come_do_not_keep_out_those_that_follow(
    job, folder, tmp_path, monkeypatch, endless
):
    monkeypatch.setattr(sources, "HELD", 50)
    monkeypatch.setattr(sources, "SIZE", 32)
    _, y = rows(4, 600, 0.8)
    labels = tmp_path / "labels.csv"
    lines = [f"nobody{i},c1\n" for i in range(200)] + [
        f"r{i},{label}\n" for i, label in enumerate(y)
    ]
    labels.write_text("id,truth\n" + "".join(lines))
    unlabelled = folder / "unlabelled.csv"
    stream = tmp_path / "pipe"
    if endless:
        os.mkfifo(stream)
        threading.Thread(target=lambda: stream.write_bytes(unlabelled.read_bytes())).start()
    go(replace(job, input=str(stream if endless else unlabelled), label=None, labels=labels))
    reasons = [record["reason"] for record in found(tmp_path / "out.jsonl.bad.jsonl")]
    assert len(reasons) == 200
    assert any("other labels wait" in reason for reason in reasons) == endless
    with LiveModel.open(job.journal) as live:
        assert live.stats()["labels"] == 600


@pytest.mark.parametrize("whole", [True, False])
def test_what_was_forgotten_is_not_in_the_newest_lines_of_a_run_either(job, tmp_path, whole):
    go(job)
    output = tmp_path / "out.jsonl"
    written = output.read_text()
    if not whole:  # the run ended before its last lines were written
        output.write_text(written[:-3000])
    with LiveModel.open(job.journal) as live:
        assert live.forget("r597") == ["r597"]
        assert not any(b"r597" in path.read_bytes() for path in job.journal.glob("journal*"))
    go(job)
    lines = written.splitlines(keepends=True)
    kept = [line for line in lines if whole or '"r597"' not in line]
    assert output.read_text() == "".join(kept)


def test_an_error_inside_ends_a_run_with_a_line_and_what_was_learned_before(job, monkeypatch):
    learn = Steps.block

    def fails(steps, X, labels):
        if steps.clf.seen_ >= 200:
            raise OverflowError("too large")
        return learn(steps, X, labels)

    monkeypatch.setattr(sources, "SIZE", 100)
    with monkeypatch.context() as patched:
        patched.setattr(Steps, "block", fails)
        with pytest.raises(HedgerowError, match=r"after line 201: internal error \(OverflowError"):
            go(job)
    assert go(job)[0] == 0
    with LiveModel.open(job.journal) as live:
        assert live.stats()["labels"] == 600
