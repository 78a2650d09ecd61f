"""Rows from a real Redis, predictions into it."""

from __future__ import annotations

import json
import signal
import time

import pytest
from support.streams import (
    NAMES,
    answers,
    assert_same,
    command,
    drained,
    feed,
    hedgerow,
    rows,
    start,
    state,
    until_drained,
)

from hedgerow.live import LiveModel


def test_rows_labels_and_late_labels_come_out_once(redis, folder):
    feed(redis, 400)
    total = redis.db.xlen("rows")
    until_drained(folder, "one", redis, total)
    assert answers(redis, "one") == [f"r{i}" for i in range(400)]
    _, counts = state(folder / "one")
    assert counts["events"] == 400
    waiting = sum(1 for i in range(400) if i % 3 == 0 and i + 30 >= 400)
    assert (counts["labels"], counts["pending"]) == (400 - waiting, waiting)
    # the same command goes on: new rows come, old ones are not repeated
    X, y = rows(9, 5, 0.8)
    for i, x in enumerate(X.tolist()):
        redis.db.xadd(
            "rows",
            {"json": json.dumps({"id": f"n{i}", "y": y[i], **dict(zip(NAMES, x, strict=True))})},
        )
    until_drained(folder, "one", redis, total + 5)
    assert answers(redis, "one")[400:] == [f"n{i}" for i in range(5)]
    redis.db.delete("rows")


def test_bad_messages_go_to_the_dead_letters_and_are_acknowledged(redis, folder):
    redis.db.xadd("rows", {"id": "a", **dict.fromkeys(NAMES, "1.0"), "y": "c1"})
    redis.db.xadd("rows", {"id": "b", **dict.fromkeys(NAMES[1:], "1.0")})
    redis.db.xadd("rows", {"json": "{not json"})
    redis.db.xadd("rows", {"id": "nobody", "y": "c1"})
    redis.db.xadd("rows", {"id": "a", **dict.fromkeys(NAMES, "2.0"), "y": "c1"})
    arguments = [*command(folder, "bad", redis), "--dead-letter", folder / "bad.dead.jsonl"]
    process = start(*arguments)
    until = time.monotonic() + 60
    while not drained(redis, "bad", 5) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    found = [json.loads(line) for line in (folder / "bad.dead.jsonl").read_text().splitlines()]
    assert len(found) == 4
    reasons = " / ".join(record["reason"] for record in found)
    for words in (
        "column 'f0' is missing",
        "not JSON",
        "no row has the id 'nobody'",
        "another instance",
    ):
        assert words in reasons, reasons
    assert answers(redis, "bad") == ["a"]
    redis.db.delete("rows")


@pytest.mark.slow
def test_what_cannot_be_reached_or_kept_is_refused_at_once(redis, folder):
    base = ["run", "-m", folder / "model.safetensors", "-o", folder / "x.jsonl", "--id", "id"]
    done = hedgerow(*base, "-i", redis.url("rows"))
    assert (done.returncode, "needs --journal" in done.stderr) == (2, True), done.stderr
    done = hedgerow(*base, "-i", "redis://127.0.0.1:1/rows", "--journal", folder / "none")
    assert (done.returncode, "no Redis at 127.0.0.1:1" in done.stderr) == (2, True), done.stderr
    done = hedgerow(*base, "-i", "redis://127.0.0.1", "--journal", folder / "none2")
    assert (done.returncode, "redis://HOST" in done.stderr) == (2, True), done.stderr


def test_a_journal_of_a_stream_can_be_looked_at_and_is_what_it_was(redis, folder):
    before = state(folder / "one")
    with LiveModel.open(folder / "one") as live:
        assert live.latest(1)[0]["id"] == "n4"
    assert_same(state(folder / "one"), before)


@pytest.mark.parametrize("when", ["before a line", "after a crash"])
def test_a_stream_that_others_write_to_loses_no_line_silently(redis, folder, tmp_path, when):
    """The run stops with an error, and goes on with a stream of its own, where all lines are."""
    lines = (folder / "stream.csv").read_text().splitlines(keepends=True)
    stream = tmp_path / "stream.csv"
    name = f"shared {when}"
    stream.write_text("".join(lines[:21]))
    command = [
        "run",
        "-m",
        folder / "model.safetensors",
        "-i",
        stream,
        "--id",
        "id",
        "--label",
        "y",
    ]
    command += ["--journal", tmp_path / "journal", "-o"]
    assert hedgerow(*command, redis.url(name)).returncode == 0
    if when == "after a crash":  # the newest line was not written when the process ended
        redis.db.xdel(name, redis.db.xrevrange(name, count=1)[0][0])
    redis.db.xadd(name, {"json": '{"id": "foreign"}'})
    stream.write_text("".join(lines[:41]))
    done = hedgerow(*command, redis.url(name))
    assert (done.returncode, "another process writes to this stream" in done.stderr) == (2, True), (
        done.stderr
    )
    assert hedgerow(*command, redis.url(name + " own")).returncode == 0
    written = [
        json.loads(f[b"json"])["id"] for s in (name, name + " own") for _, f in redis.db.xrange(s)
    ]
    assert set(written) == {"foreign", *(f"r{i}" for i in range(40))}


def test_a_line_that_was_written_before_the_crash_is_there_once(redis, folder, tmp_path):
    lines = (folder / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join(lines[:21]))
    command = [
        "run",
        "-m",
        folder / "model.safetensors",
        "-i",
        tmp_path / "stream.csv",
        "--id",
        "id",
        "--label",
        "y",
    ]
    command += ["--journal", tmp_path / "journal", "-o", redis.url("once")]
    for _ in range(2):  # the second one writes the newest lines again, and finds them there
        assert hedgerow(*command).returncode == 0
    assert [json.loads(f[b"json"])["id"] for _, f in redis.db.xrange("once")] == [
        f"r{i}" for i in range(20)
    ]


@pytest.mark.parametrize("side", ["-i", "-o"])
def test_a_key_of_another_type_is_one_line(redis, folder, tmp_path, side):
    redis.db.set("a text", "x")
    other = {"-i": ["-o", tmp_path / "out.jsonl"], "-o": ["-i", folder / "stream.csv"]}[side]
    command = [
        "run",
        "-m",
        folder / "model.safetensors",
        "--id",
        "id",
        "--label",
        "y",
        "--journal",
        tmp_path / "journal",
    ]
    done = hedgerow(*command, side, redis.url("a text"), *other)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "WRONGTYPE" in done.stderr


def test_a_password_is_in_no_message(redis, folder, tmp_path):
    command = [
        "run",
        "-m",
        folder / "model.safetensors",
        "--id",
        "id",
        "-o",
        tmp_path / "out.jsonl",
        "-i",
    ]
    address = redis.url("rows").removeprefix("redis://")
    for url, journal in (
        (f"redis://me:s3cret@{address}", []),
        (f"redis://me:s3cret@{address}", ["--journal", tmp_path / "journal"]),
        (f"redis://{address}?password=s3cret&nonsense=1", ["--journal", tmp_path / "journal"]),
        (
            f"rediss://me:s3cret@{address}?ssl_cert_reqs=none",
            ["--journal", tmp_path / "journal"],
        ),  # no TLS there
        ("redis://me:s3cret@127.0.0.1", ["--journal", tmp_path / "journal"]),
    ):
        done = hedgerow(*command, url, *journal)
        assert (done.returncode, "Traceback" in done.stderr, "s3cret" in done.stderr) == (
            2,
            False,
            False,
        ), done.stderr
