"""kill -9 of `hedgerow run` at random moments, restarted each time, against a run that nothing interrupted."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

from live.streams import assert_same, hedgerow, make, start, state


def command(folder, name, late):
    labels = ["-i", folder / "unlabelled.csv", "--labels", folder / "labels.jsonl"] if late else [
        "-i", folder / "stream.csv", "--label", "y"
    ]  # fmt: skip
    return [
        "run", "-m", folder / "model.safetensors", *labels, "--id", "id", "-o", folder / f"{name}.jsonl", "--journal",
        folder / name, "--snapshot-every", 700,
    ]  # fmt: skip


def kill_run(folder, kills, late=False, n=20_000, method="oddm", seed=0, say=print):
    """Kill and start again until so many kills have hit a run on its way; then let it end, and compare."""
    folder = make(Path(folder), n, method)
    done = hedgerow(*command(folder, "steady", late))
    assert done.returncode == 0, done.stderr
    rng, hits, begun = random.Random(seed), 0, time.monotonic()
    journal = folder / "killed"
    rounds = 0
    while hits < kills:
        process = start(*command(folder, "killed", late))
        until = time.monotonic() + 60
        before = _size(journal)
        while process.poll() is None and _size(journal) == before and time.monotonic() < until:
            time.sleep(0.002)  # until it has come to work
        time.sleep(rng.random() * 0.12)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            hits += 1
        process.wait()
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        if process.returncode == 0:  # it came to its end: begin again, with another journal
            _compare(folder, late, n)
            rounds += 1
            for path in (journal, folder / "killed.jsonl"):
                _remove(path)
    done = hedgerow(*command(folder, "killed", late))
    assert done.returncode == 0, done.stderr
    _compare(folder, late, n)
    say(f"run{' with late labels' if late else ''}: {hits} kills over {rounds + 1} streams of {n} rows, "
        f"state bit-equal, every id once, {time.monotonic() - begun:.0f} s")  # fmt: skip
    return hits


def _compare(folder, late, n):
    assert_same(state(folder / "killed"), state(folder / "steady"))
    steady, killed = ((folder / f"{name}.jsonl").read_text() for name in ("steady", "killed"))
    assert steady == killed, "the outputs differ"
    ids = [json.loads(line)["id"] for line in killed.splitlines()]
    assert ids == [f"r{i}" for i in range(n)]


def _size(journal):
    wal = journal / "journal.sqlite-wal"
    try:
        return (wal.stat().st_mtime_ns, (journal / "head").stat().st_mtime_ns)
    except FileNotFoundError:
        return None


def _remove(path):
    import shutil

    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
