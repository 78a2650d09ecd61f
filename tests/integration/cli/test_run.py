from __future__ import annotations

import json
import os
import signal
import subprocess

import numpy as np
import pytest
from support.command import COMMAND, environment

from hedgerow import OnlineTransferClassifier
from hedgerow.data import read


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_predictions_are_those_made_before_each_label(files, model, hedgerow, tmp_path):
    out = tmp_path / "p.jsonl"
    saved = tmp_path / "after.safetensors"
    done = hedgerow(
        "run -m",
        model,
        "-i",
        files / "stream.csv",
        "-o",
        out,
        "--label kind --save",
        saved,
        "--proba",
    )
    assert done.returncode == 0, done.stderr
    found = lines(out.read_text(encoding="utf-8"))
    stream = read(files / "stream.csv", label="kind")
    clf = OnlineTransferClassifier.load(model)
    expected = clf.predict_then_learn(stream.X, stream.y)
    assert [row["prediction"] for row in found] == expected.tolist()
    assert [row["line"] for row in found] == list(range(2, 62))
    assert sum(not row["correct"] for row in found) == clf.mistakes_
    assert f"{clf.mistakes_} mistakes in 60 labelled" in done.stderr
    assert "most trusted: " in done.stderr
    again = OnlineTransferClassifier.load(saved)
    for name, array in clf.learner_.arrays().items():
        np.testing.assert_array_equal(again.learner_.arrays()[name], array)


def test_json_lines_and_csv_say_the_same(files, model, hedgerow, tmp_path):
    stream = read(files / "stream.csv", label="kind")
    names = stream.feature_names or ()
    path = tmp_path / "stream.jsonl"
    rows = [
        {"kind": str(y), "note": "x", **dict(zip(names, map(float, x), strict=True))}
        for x, y in zip(stream.X, stream.y, strict=True)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    by_csv = hedgerow("run -m", model, "-i", files / "stream.csv", "-o - --label kind")
    by_json = hedgerow("run -m", model, "-i", path, "-o - --label kind")
    piped = hedgerow(
        "run -m",
        model,
        "-i - -o - --label kind",
        stdin=path.read_text(encoding="utf-8"),
    )
    drop = [{k: v for k, v in row.items() if k != "line"} for row in lines(by_csv.stdout)]
    assert drop == [{k: v for k, v in row.items() if k != "line"} for row in lines(by_json.stdout)]
    assert piped.stdout == by_json.stdout
    assert (
        "ignored columns that the model does not know: note (hedgerow fit --column new=NAME"
        in by_json.stderr
    )


BAD = [
    ("1,2,3", "3 fields, the header has 6"),
    ("1,2,x,4,5,mug", "column 'weight': 'x' is not a number"),
    ("1,2,inf,4,5,mug", "column 'weight': 'inf' is not a finite number"),
    ('1,2,"3"4,4,5,mug', "not CSV"),
]


def test_bad_rows_are_named_and_skipped(files, model, hedgerow):
    good = (files / "stream.csv").read_text(encoding="utf-8").splitlines()
    text = "\n".join([*good[:4], *(bad for bad, _ in BAD), *good[4:6]]) + "\n"
    done = hedgerow("run -m", model, "-i - -o - --label kind", stdin=text)
    assert done.returncode == 0
    for line, (_, reason) in enumerate(BAD, start=5):
        assert f"line {line} skipped: {reason}" in done.stderr
    assert f"{len(BAD)} bad rows skipped" in done.stderr
    assert [row["line"] for row in lines(done.stdout)] == [2, 3, 4, 9, 10]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_model_of_clean_numbers_takes_gaps(files, model, hedgerow, format):
    header, *rows = (files / "stream.csv").read_text(encoding="utf-8").splitlines()
    names = header.split(",")
    cells = [row.split(",") for row in rows[:40]]
    clf = OnlineTransferClassifier.load(model)
    for i in range(0, 40, 4):
        cells[i][i % 5] = ""
    X = np.array([[cell or "nan" for cell in row[:-1]] for row in cells], dtype=float)
    expected = clf.predict_then_learn(X, np.array([row[-1] for row in cells]))
    if format == "csv":
        text = "\n".join([header, *(",".join(row) for row in cells)]) + "\n"
    else:
        values = [
            {n: v if n == "kind" else float(v) for n, v in zip(names, row, strict=True) if v}
            for row in cells
        ]
        text = "".join(json.dumps(row) + "\n" for row in values)
    done = hedgerow("run -m", model, "-i - -o - --label kind --format", format, stdin=text)
    assert "skipped" not in done.stderr
    assert [row["prediction"] for row in lines(done.stdout)] == list(expected)


def test_a_bad_row_stops_the_run_if_asked(files, model, hedgerow, tmp_path):
    good = (files / "stream.csv").read_text(encoding="utf-8").splitlines()
    text = "\n".join([*good[:4], "1,2,3", *good[4:6]]) + "\n"
    saved = tmp_path / "m.safetensors"
    arguments = (
        "run -m",
        model,
        "-i - -o - --label kind --on-error stop --save",
        saved,
    )
    done = hedgerow(*arguments, stdin=text)
    assert done.returncode == 2
    assert "error: standard input, line 5: 3 fields, the header has 6" in done.stderr
    assert len(lines(done.stdout)) == 3
    assert OnlineTransferClassifier.load(saved).seen_ == 3


def test_an_empty_label_is_predicted_and_not_learned(files, model, hedgerow):
    header, first, *_ = (files / "stream.csv").read_text(encoding="utf-8").splitlines()
    unlabelled = first.rpartition(",")[0] + ","
    done = hedgerow(
        "run -m",
        model,
        "-i - -o - --label kind",
        stdin=f"{header}\n{unlabelled}\n{first}\n",
    )
    one, two = lines(done.stdout)
    assert "label" not in one
    assert one["prediction"] == two["prediction"]
    assert one["probability"] == two["probability"]
    assert "in 1 labelled" in done.stderr


def test_an_input_that_cannot_fit_leaves_the_output_alone(model, hedgerow, tmp_path):
    source = tmp_path / "s.csv"
    out = tmp_path / "old.jsonl"
    source.write_text("width,height,weight,age,kind\n", encoding="utf-8")
    out.write_text("old\n", encoding="utf-8")
    done = hedgerow(
        "run -m",
        model,
        "-i",
        source,
        "-o",
        out,
        "--append --label kind --save",
        tmp_path / "m.safetensors",
    )
    assert done.returncode == 2
    assert "column 'price' is missing" in done.stderr
    assert out.read_text(encoding="utf-8") == "old\n"
    assert not (tmp_path / "m.safetensors").exists()


def test_bytes_that_are_not_utf8_are_a_bad_row(files, model, tmp_path):
    good = (files / "stream.csv").read_bytes().splitlines(keepends=True)
    path = tmp_path / "s.csv"
    path.write_bytes(b"".join([*good[:2], b"1,2,3,4,5,\xff\xfe\r\n", *good[2:3]]))
    done = subprocess.run(
        [*COMMAND, "run", "-m", model, "-i", path, "-o", "-", "--label", "kind"],
        capture_output=True,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert b"line 3 skipped: the label is not UTF-8" in done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_a_reader_that_leaves_ends_the_run_quietly(files, model, tmp_path):
    source = tmp_path / "long.csv"
    header, *rows = (files / "stream.csv").read_text(encoding="utf-8").splitlines()
    source.write_text("\n".join([header, *rows * 100]) + "\n", encoding="utf-8")
    process = subprocess.Popen(
        [*COMMAND, "run", "-m", model, "-i", source, "-o", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read() if process.stderr else ""
    assert process.wait(timeout=60) == 128 + signal.SIGPIPE
    assert "Traceback" not in err
    assert "Error" not in err
    if process.stderr:
        process.stderr.close()


@pytest.mark.parametrize("plain", [True, False])
def test_a_terminal_gets_colour_unless_no_color_is_set(plain):
    master, slave = os.openpty()
    extra = {"NO_COLOR": "1"} if plain else {}
    done = subprocess.Popen(
        [*COMMAND, "methods"],
        stdout=slave,
        stderr=slave,
        env=environment(TERM="xterm-256color", **extra),
    )
    assert done.wait(timeout=60) == 0
    os.close(slave)
    text = os.read(master, 100_000).decode()
    os.close(master)
    assert ("\x1b" in text) is not plain
