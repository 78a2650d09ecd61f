"""Real processes and real signals: whenever they come, what was learned is saved and the exit code is right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.command import FRESH, environment

from hedgerow import OnlineTransferClassifier
from hedgerow.run.sources import SIZE

PIPES = {
    "stdin": subprocess.PIPE,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
    "text": True,
}


def started(files, model, saved, rows):
    """A run that has answered this many rows and waits for the next."""
    header, *given = (files / "stream.csv").read_text(encoding="utf-8").splitlines()
    arguments = ["run", "-m", model, "-i", "-", "-o", "-", "--label", "kind", "--save", saved]
    process = subprocess.Popen([*FRESH, *map(str, arguments)], env=environment(), **PIPES)  # type: ignore[call-overload]
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(header + "\n")
    for k in range(1, rows + 1):
        process.stdin.write(given[k] + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["row"] == k
    return process


@pytest.mark.parametrize(
    ("number", "gap"),
    [
        (signal.SIGINT, None),
        (signal.SIGTERM, None),
        *((signal.SIGINT, gap) for gap in (0.0, 0.0003, 0.001, 0.002, 0.02)),
    ],
)
def test_a_signal_saves_and_a_second_one_loses_nothing(files, model, tmp_path, number, gap):
    saved = tmp_path / "after.safetensors"
    process = started(files, model, saved, 5)
    os.kill(process.pid, number)
    if gap is not None:
        time.sleep(gap)
        os.kill(process.pid, number)
    process.wait(timeout=60)  # with its input still open: it is the signal that ends it
    out, err = process.communicate()
    assert (process.returncode, out) == (0, ""), err
    assert "Traceback" not in err
    assert "interrupted after line 6" in err
    assert "model saved" in err
    assert OnlineTransferClassifier.load(saved).seen_ == 5


def test_a_hail_of_signals_until_the_end_loses_nothing(files, model, tmp_path):
    saved = tmp_path / "after.safetensors"
    process = started(files, model, saved, 5)
    sent = 0
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        sent += 1
        time.sleep(0.0005)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert sent > 2
    assert "Traceback" not in err
    assert OnlineTransferClassifier.load(saved).seen_ == 5


def test_signals_in_the_middle_of_rows_leave_whole_lines(files, model, tmp_path):
    header, *rows = (files / "stream.csv").read_text(encoding="utf-8").splitlines()
    source = tmp_path / "long.csv"
    out = tmp_path / "p.jsonl"
    saved = tmp_path / "after.safetensors"
    source.write_text("\n".join([header, *rows * 3000]) + "\n", encoding="utf-8")
    arguments = ["run", "-m", model, "-i", source, "-o", out, "--label", "kind", "--save", saved]
    process = subprocess.Popen(
        [*FRESH, *map(str, arguments)], stderr=subprocess.PIPE, text=True, env=environment()
    )
    while not (out.exists() and out.stat().st_size):
        assert process.poll() is None
    for _ in range(2):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.001)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    text = out.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert OnlineTransferClassifier.load(saved).seen_ == len(
        [json.loads(line) for line in text.splitlines()]
    )


def test_a_reader_that_takes_nothing_does_not_keep_the_run_from_saving(files, model, tmp_path):
    header, *rows = (files / "stream.csv").read_text(encoding="utf-8").splitlines()
    source = tmp_path / "long.csv"
    saved = tmp_path / "after.safetensors"
    source.write_text("\n".join([header, *rows * 300]) + "\n", encoding="utf-8")
    arguments = ["run", "-m", model, "-i", source, "-o", "-", "--label", "kind", "--save", saved]
    process = subprocess.Popen([*FRESH, *map(str, arguments)], env=environment(), **PIPES)  # type: ignore[call-overload]
    assert process.stdout is not None
    first = process.stdout.readline()
    assert json.loads(first)["row"] == 1
    time.sleep(1.5)  # by then the pipe is full, and nobody reads on
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    out, err = process.communicate(timeout=60)
    assert "model saved" in err
    answered = (first + out).count("}\n")
    # the block in hand was learned, and could not be written
    assert answered <= OnlineTransferClassifier.load(saved).seen_ <= answered + SIZE < 60 * 300


def test_a_named_pipe_that_nobody_reads_can_be_given_up(files, model, tmp_path):
    os.mkfifo(tmp_path / "out")
    arguments = [
        "run",
        "-m",
        model,
        "-i",
        files / "stream.csv",
        "-o",
        tmp_path / "out",
        "--label",
        "kind",
    ]
    process = subprocess.Popen(
        [*FRESH, *map(str, arguments)], stderr=subprocess.PIPE, text=True, env=environment()
    )
    status = Path(f"/proc/{process.pid}/status")
    while (
        not int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> (signal.SIGTERM - 1) & 1
    ):
        time.sleep(0.05)  # until the run has taken over the signals
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in err


SAVING = """
import sys, time
from hedgerow.run.interrupts import Interrupts
with Interrupts() as interrupts:
    print("ready", flush=True)
    while not interrupts.signal:
        time.sleep(0.01)
    with interrupts.saving():
        print("saving", flush=True)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            time.sleep(0.01)
    print("saved", interrupts.count, flush=True)
time.sleep(0.5)
sys.exit(128 + interrupts.signal)
"""


def test_saving_goes_on_and_says_so():
    process = subprocess.Popen(
        [sys.executable, "-c", SAVING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "saving\n"
    for _ in range(2):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.05)
    assert process.stdout.readline() == "saved 3\n"
    os.kill(process.pid, signal.SIGINT)  # on its way out: the exit code stays
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "still saving\n" * 2


WAITING = """
import os, sys
from hedgerow.run.interrupts import Interrupted, Interrupts
with Interrupts() as interrupts:
    text = interrupts.reading(0)
    os.kill(os.getpid(), 2)  # before the waiting begins: it must not begin
    try:
        print(next(text))
    except Interrupted:
        print("interrupted", interrupts.signal)
"""


def test_a_signal_just_before_the_waiting_is_not_lost():
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    watchdog = threading.Timer(20, process.kill)
    watchdog.start()
    assert process.stdout is not None
    assert process.stdout.readline() == "interrupted 2\n"
    watchdog.cancel()
    process.communicate(timeout=20)
