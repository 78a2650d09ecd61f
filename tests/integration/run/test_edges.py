"""Runs with a journal at their edges: saving, another output, labels that contradict each other."""

from __future__ import annotations

import json
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.streams import hedgerow

from hedgerow.core.errors import InputError
from hedgerow.live import LiveModel, Settings
from hedgerow.run.job import Job
from hedgerow.run.loop import run


@pytest.fixture
def job(folder, tmp_path):
    model, stream = (
        Path(shutil.copy(folder / name, tmp_path)) for name in ("model.safetensors", "stream.csv")
    )
    stream.write_text("".join(stream.read_text().splitlines(keepends=True)[:41]))
    return Job(
        model, str(stream), str(tmp_path / "out.jsonl"), "y", id="id", journal=tmp_path / "journal",
        settings={"sync": "normal"},
    )  # fmt: skip


def go(job):
    said = []
    assert run(job, said.append, lambda _: None) == 0
    return "\n".join(said)


def test_a_run_that_saves_elsewhere_can_be_given_again(job, tmp_path):
    job = replace(job, save=tmp_path / "saved.safetensors")
    go(job)
    assert "going on with the journal" in go(job)


def test_a_run_that_saves_over_its_model_goes_on_whenever_it_ended(job):
    before = job.model.read_bytes()
    saving = replace(job, save=job.model)
    go(saving)
    assert job.model.read_bytes() != before
    assert "going on with the journal" in go(saving)


@pytest.mark.parametrize("first", ["file", "stream"])
def test_an_output_of_another_kind_is_refused_with_a_word(job, first):
    stream = replace(job, output="/dev/null")
    one, other = (job, stream) if first == "file" else (stream, job)
    go(one)
    with pytest.raises(InputError, match="go on with that"):
        go(other)
    go(one)


def test_the_first_of_two_labels_counts_and_the_other_is_named(job, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\nr0,0\nr0,1\nr0,0\n")
    go(replace(job, label=None, labels=labels))
    bad = [json.loads(line) for line in Path(f"{job.output}.bad.jsonl").read_text().splitlines()]
    assert [(each["line"], each["row"]) for each in bad] == [(3, "r0")]


def test_a_file_of_labels_that_was_cut_is_refused(job, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\nr0,0\nr1,1\n")
    job = replace(job, label=None, labels=labels)
    go(job)
    labels.write_text("id,label\nr2,1\n")
    with pytest.raises(InputError, match="shorter than before"):
        go(job)


def test_a_row_that_stopped_the_run_is_not_passed_over_by_the_same_command(job):
    lines = Path(job.input).read_text().splitlines(keepends=True)
    Path(job.input).write_text(
        "".join([*lines[:11], "bad" + ",x" * lines[0].count(",") + "\n", *lines[11:]])
    )
    stop = replace(job, on_error="stop")
    for _ in range(2):
        with pytest.raises(InputError, match="line 12"):
            go(stop)
        assert len(Path(job.output).read_text().splitlines()) == 10
    assert "line 12 skipped" in go(job)
    assert len(Path(job.output).read_text().splitlines()) == 40


def bad_rows(job):
    return [json.loads(line) for line in Path(f"{job.output}.bad.jsonl").read_text().splitlines()]


def test_a_label_that_was_half_written_at_the_end_is_learned_when_it_is_whole(job, tmp_path):
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"id": "r0", "y": "c0"}\n{"id": "r1", "y"')
    job = replace(job, label=None, labels=labels)
    assert "labels.jsonl, line 2, is not complete yet" in go(job)
    with labels.open("a") as file:
        file.write(': "c1"}\n{"id": "r2", "y": "c2"}')
    assert "in 3 labelled" in go(job)
    assert not Path(f"{job.output}.bad.jsonl").exists()


def test_a_row_that_comes_again_is_counted(job):
    lines = Path(job.input).read_text().splitlines(keepends=True)
    Path(job.input).write_text("".join([*lines[:21], lines[5], *lines[21:]]))
    assert "40 rows" in (said := go(job))
    assert "1 row that came before" in said
    assert "1 row that came before" in go(job)


def test_settings_of_the_journal_stay_unless_they_are_asked_for(job):
    kept = Settings(keep_events=9, keep_seconds=1e6, label_timeout=1e5, sync="normal")
    go(job)
    LiveModel.open(job.journal, kept).close()
    go(replace(job, settings={}))
    with LiveModel.open(job.journal) as live:
        assert live.settings == kept
    go(replace(job, settings={"snapshot_every": 7}))
    with LiveModel.open(job.journal) as live:
        assert live.settings == replace(kept, snapshot_every=7)


@pytest.mark.parametrize("written", ["output", "dead_letter", "save"])
@pytest.mark.parametrize("read", ["input", "model", "labels", "journal"])
def test_nothing_that_is_read_is_written_over(job, tmp_path, written, read):
    if (written, read) == ("save", "model"):
        return  # that is what --save MODEL is for
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"id": "r0", "y": "c1"}\n')
    job = replace(job, label=None, labels=labels)
    job.journal.mkdir()
    path = {"journal": job.journal / "journal.sqlite"}.get(read) or Path(getattr(job, read))
    other = tmp_path / "link"
    before = path.read_bytes() if path.exists() else b""
    if before:
        other.symlink_to(path)
    for name in (path, other) if before else (path,):
        with pytest.raises(InputError, match="would overwrite"):
            go(replace(job, **{written: str(name) if written == "output" else name}))
        assert not before or path.read_bytes() == before


def test_the_files_that_are_written_are_different_ones(job, tmp_path):
    for names in (
        {"dead_letter": Path(job.output)},
        {"save": tmp_path / "a", "dead_letter": tmp_path / "a"},
    ):
        with pytest.raises(InputError, match=r"would overwrite the (predictions|bad rows) of --"):
            go(replace(job, **names))


def test_older_dead_letters_stay(job, tmp_path):
    text = Path(job.input).read_text().splitlines(keepends=True)
    Path(job.input).write_text("".join([*text[:4], "r99,no,number\n", *text[4:]]))
    job = replace(job, journal=None, id=None, settings={}, dead_letter=tmp_path / "dead.jsonl")
    go(replace(job, overwrite=True))
    go(replace(job, overwrite=True))
    assert [json.loads(line)["line"] for line in job.dead_letter.read_text().splitlines()] == [5, 5]


def test_a_run_that_stops_at_bad_rows_commits_blocks(job, monkeypatch):
    """Not row by row; and the rows before the bad one are committed, those after it are not."""
    lines = Path(job.input).read_text().splitlines(keepends=True)
    Path(job.input).write_text(
        "".join([*lines[:31], "bad" + ",x" * lines[0].count(",") + "\n", *lines[31:]])
    )
    commits = []
    together = LiveModel.do_together
    monkeypatch.setattr(
        LiveModel, "do_together", lambda self, work: commits.append(1) or together(self, work)
    )
    with pytest.raises(InputError, match="line 32"):
        go(replace(job, on_error="stop", id=None))
    assert len(commits) == 2  # the model's mark, and the block
    assert len(Path(job.output).read_text().splitlines()) == 30
    go(replace(job, id=None))  # without ids the place in the input alone tells what was taken
    assert len(Path(job.output).read_text().splitlines()) == 40


def test_a_row_that_comes_again_without_a_journal_is_known_by_its_id(job, tmp_path):
    """The rules of events are those of a journal, where labels may come later."""
    lines = Path(job.input).read_text().splitlines(keepends=True)
    names = lines[0].strip().split(",")
    rows = [dict(zip(names, line.strip().split(","), strict=True)) for line in lines[1:]]
    stream = tmp_path / "stream.jsonl"
    again = [
        *rows[:20],
        rows[3],
        {"id": "r3", "y": rows[3]["y"]},
        {"id": "r4", "y": "c9"},
        *rows[20:],
    ]
    stream.write_text("".join(json.dumps(row) + "\n" for row in again))
    said = {}
    for journal in (job.journal, None):
        out = str(tmp_path / f"{journal is None}.jsonl")
        said[journal] = go(
            replace(job, input=str(stream), journal=journal, output=out, settings={})
        )
        assert "1 row that came before" in said[journal]
        assert len(Path(out).read_text().splitlines()) == 40
        [bad] = [json.loads(line) for line in Path(f"{out}.bad.jsonl").read_text().splitlines()]
        assert (bad["line"], "was learned for it before" in bad["reason"]) == (23, True)


def test_an_output_that_would_be_read_by_the_next_run_is_refused(job, tmp_path):
    days = tmp_path / "days"
    days.mkdir()
    shutil.copy(job.input, days / "day-1.csv")
    for input, output in ((days, days / "out.jsonl"), (days / "*.csv", days / "out.csv")):
        with pytest.raises(InputError, match="would become a part of the input"):
            go(replace(job, input=str(input), output=str(output)))
    with pytest.raises(InputError, match="would overwrite the input"):
        go(replace(job, input=str(days), output=str(days / "day-1.csv")))


def test_a_full_disk_without_a_journal_is_one_line(job):
    with pytest.raises(InputError, match="cannot write to /dev/full: No space left on device"):
        go(replace(job, journal=None, settings={}, output="/dev/full"))


def test_a_full_disk_is_one_line_and_an_exit_code(job, tmp_path):
    """A limit on the size of files stands for the disk: the system refuses in the middle of the output."""
    command = [
        "run",
        "-m",
        job.model,
        "-i",
        job.input,
        "-o",
        tmp_path / "out.jsonl",
        "--label",
        "y",
    ]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731
    done = hedgerow(*command, preexec_fn=limit)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert f"cannot write to {tmp_path / 'out.jsonl'}: File too large" in done.stderr
