"""What a run reads and writes is checked before it begins: nothing is lost at its end or overwritten unasked."""

from __future__ import annotations

import json
import os
import resource
import subprocess

import pytest
from support.command import COMMAND, FRESH, environment

from hedgerow import OnlineTransferClassifier


def refused(done, *words):
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_an_output_with_content_needs_a_word(files, model, hedgerow, tmp_path):
    out = tmp_path / "p.jsonl"
    run = ("run -m", model, "-i", files / "stream.csv", "-o", out)
    out.touch()
    assert hedgerow(*run).returncode == 0  # empty: nothing to lose
    first = out.read_text(encoding="utf-8")
    assert first.count("\n") == 60
    refused(hedgerow(*run), str(out), "--append", "--overwrite")
    refused(hedgerow(*run, "--append --overwrite"), "exclude each other")
    assert out.read_text(encoding="utf-8") == first
    assert hedgerow(*run, "--append").returncode == 0
    assert out.read_text(encoding="utf-8") == first * 2
    out.write_text(first * 2 + '{"torn', encoding="utf-8")
    assert hedgerow(*run, "--append").returncode == 0
    assert out.read_text(encoding="utf-8") == first * 2 + '{"torn\n' + first
    assert hedgerow(*run, "--overwrite").returncode == 0
    assert out.read_text(encoding="utf-8") == first


def test_an_input_that_cannot_fit_spares_the_output_even_if_it_may_be_overwritten(
    model, hedgerow, tmp_path
):
    source = tmp_path / "s.csv"
    out = tmp_path / "old.jsonl"
    source.write_text("width,height,weight,age,kind\n", encoding="utf-8")
    out.write_text("old\n", encoding="utf-8")
    refused(
        hedgerow("run -m", model, "-i", source, "-o", out, "--overwrite"),
        "column 'price' is missing",
    )
    assert out.read_text(encoding="utf-8") == "old\n"


def test_words_about_a_file_are_refused_for_standard_output(files, model, hedgerow):
    refused(
        hedgerow("run -m", model, "-i", files / "stream.csv", "-o - --append"),
        "standard output",
    )


def test_no_two_files_of_a_run_are_one(files, model, hedgerow, tmp_path):
    stream = tmp_path / "stream.csv"
    copy = tmp_path / "model.safetensors"
    stream.write_bytes((files / "stream.csv").read_bytes())
    copy.write_bytes(model.read_bytes())
    (tmp_path / "link").symlink_to("new")
    (tmp_path / "folder").symlink_to(tmp_path)
    os.link(stream, tmp_path / "hard")
    before = {path.name: path.read_bytes() for path in (stream, copy)}
    for output, save, words in (
        (stream, None, "would overwrite the input"),
        (tmp_path / "hard", None, "would overwrite the input"),
        (tmp_path / "folder" / "model.safetensors", None, "would overwrite the model"),
        (tmp_path / "new", tmp_path / "new", "would overwrite the predictions"),
        (tmp_path / "new", tmp_path / "link", "would overwrite the predictions"),
        (
            tmp_path / "folder" / ".." / tmp_path.name / "new",
            tmp_path / "new",
            "would overwrite the predictions",
        ),
        (tmp_path / "new", stream, "would overwrite the input"),
    ):
        saving = () if save is None else ("--save", save)
        refused(hedgerow("run -m", copy, "-i", stream, "-o", output, "--overwrite", *saving), words)
        assert not (tmp_path / "new").exists()
    assert {path.name: path.read_bytes() for path in (stream, copy)} == before


def test_standard_input_and_output_are_files_too(files, model, tmp_path):
    stream = tmp_path / "stream.csv"
    out = tmp_path / "p.jsonl"
    stream.write_bytes((files / "stream.csv").read_bytes())
    for arguments, words in (
        (["-o", stream, "--overwrite"], b"would overwrite the input, standard input"),
        (["-o", "-", "--save", out], b"would overwrite the predictions"),
    ):
        with stream.open("rb") as given, out.open("wb") as taken:
            done = subprocess.run(
                [*COMMAND, "run", "-m", model, "-i", "-", *arguments],
                stdin=given,
                stdout=taken,
                stderr=subprocess.PIPE,
                env=environment(),
            )
        assert done.returncode == 2
        assert words in done.stderr
        assert out.read_bytes() == b""


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        *(("run", kind) for kind in ("folder", "no folder", "read-only", "too small")),
        *(
            ("fit", kind) for kind in ("folder", "no folder", "read-only")
        ),  # how large it will be is not known yet
    ],
)
def test_a_place_for_the_model_that_will_not_do_is_refused_at_the_start(
    files, model, tmp_path, command, kind
):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o444 if kind == "read-only" else 0o644)
    save = {"folder": tmp_path, "no folder": tmp_path / "none" / "model"}.get(
        kind, tmp_path / "file"
    )
    if command == "run":
        arguments = [
            "run",
            "-m",
            model,
            "-i",
            files / "stream.csv",
            "-o",
            "-",
            "--label",
            "kind",
            "--save",
            save,
        ]
    else:
        arguments = ["fit", "--source", files / "shop.csv", "--label", "kind", "-o", save]
    small = kind == "too small"
    done = subprocess.run(
        [*(FRESH if small else COMMAND), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(),
        preexec_fn=_little_room if small else None,
    )
    refused(done, f"cannot write to {save}")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def _little_room():
    """No file may be larger than 1,000 bytes, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))


def test_a_model_is_not_saved_over_a_source(files, hedgerow, tmp_path):
    source = tmp_path / "shop.csv"
    source.write_bytes((files / "shop.csv").read_bytes())
    refused(
        hedgerow("fit --source", source, "--label kind -o", source),
        "would overwrite",
        str(source),
    )
    assert source.read_bytes() == (files / "shop.csv").read_bytes()


def test_what_was_learned_and_not_kept_is_the_last_word(files, model, hedgerow, tmp_path):
    run = ("run -m", model, "-i", files / "stream.csv", "-o -")
    last = hedgerow(*run, "--label kind").stderr.splitlines()[-1]
    assert last.startswith("not kept: what was learned from 60 labels")
    assert f"--save {model}" in last
    assert "not kept" not in hedgerow(*run).stderr  # nothing was learned
    assert "not kept" not in hedgerow(*run, "--label kind --save", tmp_path / "m").stderr


def test_learning_outlives_a_terminal_that_went_away(files, model, tmp_path):
    saved = tmp_path / "after.safetensors"
    arguments = [
        "run",
        "-m",
        model,
        "-i",
        files / "stream.csv",
        "-o",
        "/dev/null",
        "--label",
        "kind",
        "--save",
        saved,
    ]
    reading, writing = os.pipe()
    os.close(reading)  # every message on stderr fails
    subprocess.run([*COMMAND, *map(str, arguments)], stderr=writing, env=environment(), timeout=120)
    os.close(writing)
    assert OnlineTransferClassifier.load(saved).seen_ == 60


def test_tabs_are_read_as_fit_reads_them(files, model, hedgerow, tmp_path):
    path = tmp_path / "stream.tsv"
    path.write_text(
        (files / "stream.csv").read_text(encoding="utf-8").replace(",", "\t"), encoding="utf-8"
    )
    done = hedgerow("run -m", model, "-i", path, "-o -")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["line"] for line in done.stdout.splitlines()] == list(range(2, 62))
