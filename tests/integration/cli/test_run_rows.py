"""Rows that used to end a stream, or to change its model unsaid."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from hedgerow import Domain, OnlineTransferClassifier


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    """A model with whole numbers for classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    source = Domain("s", X, (X[:, 0] > 0).astype(int), feature_names=["a", "b"])
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    OnlineTransferClassifier(method="pa").fit_domains([source]).save(path)
    return path


def lines_of(text):
    return [json.loads(line)["line"] for line in text.splitlines()]


def test_no_row_of_a_csv_ends_the_stream(counting, hedgerow):
    good = [f"{i % 7},{i % 3},{i % 2}" for i in range(500)]
    bad = ["1,2,nan", "1,2,inf", f"1,{'9' * 401},1", f"1,2,{'9' * 401}", '1,"2,1']
    rows = good.copy()
    for i, row in enumerate(bad):
        rows.insert(10 * i, row)
    text = "\n".join(["a,b,y", *rows]) + "\n"
    done = hedgerow("run -m", counting, "-i - -o - --label y", stdin=text)
    assert done.returncode == 0, done.stderr
    skipped = [2 + 10 * i for i in range(len(bad))]
    assert [f"line {line} skipped: " in done.stderr for line in skipped] == [True] * len(bad)
    assert done.stderr.count(" skipped: ") == len(bad)
    assert lines_of(done.stdout) == [
        line for line in range(2, 502 + len(bad)) if line not in skipped
    ]


def test_no_line_of_json_ends_the_stream(counting, hedgerow):
    good = '{"a": 1, "b": 2, "y": 1}'
    deep = "[" * 100_000 + "]" * 100_000
    bad = [
        good.replace("2", deep),
        good.replace("2", "9" * 401),
        good.replace("2", "9" * 5000),
        deep,
    ]
    text = "\n".join([good, *bad, good]) + "\n"
    done = hedgerow("run -m", counting, "-i - -o - --label y", stdin=text)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(" skipped: ") == len(bad)
    assert lines_of(done.stdout) == [1, 6]


def test_a_renamed_key_of_json_lines_is_said_once(hedgerow, tmp_path):
    rows = [{"temp": i % 7, "city": ("Oslo", "Rome")[i % 2]} for i in range(40)]
    labels = np.arange(40) % 2
    model = tmp_path / "m.safetensors"
    stream = tmp_path / "rows.jsonl"
    OnlineTransferClassifier("pa").fit(pd.DataFrame(rows), labels).save(model)
    told = "no column 'temp', a gap; the model does not know 'temperature': was a column renamed?"
    for old, new in (("temp", "temperature"), ("temp", "temp")):
        stream.write_text(
            "".join(json.dumps(row).replace(f'"{old}"', f'"{new}"') + "\n" for row in rows)
        )
        for source, given in ((stream, None), ("-", stream.read_text())):
            done = hedgerow("run -m", model, "-i", source, "-o -", stdin=given)
            assert done.returncode == 0, done.stderr
            assert done.stderr.count(told) == (new != old), done.stderr


def test_a_new_class_is_announced_once_with_its_line(counting, hedgerow, tmp_path):
    saved = tmp_path / "m.safetensors"
    run = ("run -m", counting, "-i - -o - --label y --save", saved)
    text = "a,b,y\n1,2,0\n1,2,7\n1,2,7\n1,2,\n1,2,8\n"
    done = hedgerow(*run, stdin=text)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "is a new class" in line]
    assert [line.split(" is a new")[0] for line in said] == ["line 3: label 7", "line 6: label 8"]
    assert "--new-classes refuse" in said[0]
    assert "2 new classes" in done.stderr
    assert OnlineTransferClassifier.load(saved).classes_.tolist() == [0, 1, 7, 8]


def test_a_new_class_can_be_refused(counting, hedgerow, tmp_path):
    saved = tmp_path / "m.safetensors"
    run = (
        "run -m",
        counting,
        "-i - -o - --label y --save",
        saved,
        "--new-classes refuse",
    )
    text = "a,b,y\n1,2,0\n1,2,7\n1,2,\n1,2,1\n"
    done = hedgerow(*run, stdin=text)
    assert done.returncode == 0, done.stderr
    assert "line 3 skipped: label '7' is not one of the model's classes: 0, 1" in done.stderr
    assert [json.loads(line)["row"] for line in done.stdout.splitlines()] == [1, 2, 3]
    assert OnlineTransferClassifier.load(saved).classes_.tolist() == [0, 1]
    stopped = hedgerow(*run, "--on-error stop", stdin=text)
    assert stopped.returncode == 2
    assert "error: standard input, line 3: label '7' is not one of" in stopped.stderr


def test_many_new_classes_are_counted(counting, hedgerow):
    text = "a,b,y\n" + "".join(f"1,2,{i}\n" for i in range(100, 130))
    done = hedgerow("run -m", counting, "-i - -o - --label y", stdin=text)
    assert done.stderr.count("is a new class") == 20
    assert "30 new classes" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--label", "y", "--new-classes", "refused"], "did you mean 'refuse'?"),
        (["--new-classes", "refuse"], "name their column with --label"),
        (["--label", "y", "--on-error", "halt"], "unknown choice for --on-error"),
        (["--format", "xml"], "unknown choice for --format"),
    ],
)
def test_choices_are_checked_first(counting, hedgerow, arguments, words):
    done = hedgerow("run -m", counting, "-i - -o -", *arguments, stdin="")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
