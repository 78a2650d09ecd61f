"""Damaged files, full disks, disks that fail: what a live model does with them.

Every damage is either found (an error of ours that says so, or a snapshot that is passed over with a message), or
changes nothing that was written: the state, every event and every label are as they were.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import HedgerowError
from hedgerow.live import JournalError, LiveModel, Settings
from live.streams import rows


def small_model(method="oddm"):
    (A, a), (B, b), (U, _) = rows(1, 60, 0.0), rows(2, 60, 0.4), rows(3, 40, 0.8)
    X, y = np.concatenate([A, B, U]), [*a, *b, *["c0"] * 40]
    return OnlineTransferClassifier(method).fit(X, y, sample_domain=np.repeat([0, 1, -1], [60, 60, 40]))


def good_folder(folder, closed):
    """A live model with blocks, late labels and events that wait; closed, or left as a crash leaves it."""
    X, y = rows(4, 130, 0.8)
    live = LiveModel.create(folder / "live", small_model(), Settings(snapshot_every=40))
    live.predict_then_learn(X[:50], y[:50])
    for i in range(50, 120):
        live.predict(X[i], id=f"e{i}")
        if i >= 60:
            live.label(f"e{i - 10}", y[i - 10])
    live._background.wait()
    if closed:
        live.close()
        return folder / "live"
    shutil.copytree(folder / "live", folder / "crashed")
    live.close()
    return folder / "crashed"


def content(live):
    """A digest of all that the journal and the model know."""
    digest = hashlib.sha256()
    for table in ("event", "features", "answer", "step", "history", "mark"):
        for row in live._journal.rows(f"SELECT * FROM {table} ORDER BY number"):
            digest.update(repr(row).encode())
    for name, array in sorted(live.clf.learner_.arrays().items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


class _Heard(logging.Handler):
    def __init__(self):
        super().__init__(logging.ERROR)
        self.count = 0

    def emit(self, record):
        self.count += 1


def outcome(folder, expected):
    """ "found", "passed over" (a snapshot, with a message), or "harmless"; anything else is an error."""
    heard, logger = _Heard(), logging.getLogger("hedgerow.live")
    logger.addHandler(heard)
    try:
        live = LiveModel.open(folder)
        try:
            same = content(live) == expected
        finally:
            live._closed = True
            live._journal.close()
            live._owner.release()
    except HedgerowError as error:
        assert len(str(error)) > 20, error
        return "found"
    finally:
        logger.removeHandler(heard)
    assert same, "a change that nobody noticed"
    return "passed over" if heard.count else "harmless"


def damaged(folder, how, count, seed, closed):
    """Damage a copy `count` times, each on its own; how it went."""
    logging.getLogger("hedgerow.live").propagate = False
    rng, found = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory(dir=folder) as work:
        good = good_folder(Path(work), closed)
        live = LiveModel.open(shutil.copytree(good, Path(work) / "expected"))
        expected = content(live)
        live._owner.release()
        for damage in how(good, rng, count):
            copied = Path(work) / "damaged"
            shutil.copytree(good, copied)
            try:
                where = damage(copied)
                found[outcome(copied, expected), where] += 1
            finally:
                shutil.rmtree(copied)
    return found


IGNORED = ("lock", "journal.sqlite-shm")  # who has it, and an index that SQLite makes anew: neither is content


def files_of(folder):
    return [
        path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in IGNORED
    ]


def flips(good, rng, count):
    """Bits anywhere, files in proportion to nothing: each is as likely."""
    names = files_of(good)
    for _ in range(count):
        name = rng.choice(names)
        size = (good / name).stat().st_size
        yield _flip(name, rng.randrange(max(size, 1)), 1 << rng.randrange(8))


def header_flips(good, rng, count):
    """Every byte of every header: SQLite's, its log's, the head, and the first of each snapshot."""
    for name in files_of(good):
        size = (good / name).stat().st_size
        length = {"journal.sqlite": 100, "journal.sqlite-wal": 56, "head": size}.get(
            name.name, 300 if count >= 1000 else 40
        )
        for at in range(min(length, size)):
            yield _flip(name, at, 1 << rng.randrange(8))


def cuts(good, rng, count):
    """Files cut short, or gone."""
    for name in files_of(good):
        size = (good / name).stat().st_size
        for _ in range(max(count // 8, 2)):
            yield _cut(name, rng.randrange(max(size, 1)))
        yield _cut(name, None)


def _flip(name, at, bit):
    def damage(folder):
        data = bytearray((folder / name).read_bytes())
        if at < len(data):
            data[at] ^= bit
        (folder / name).write_bytes(data)
        return str(name.name if name.parent == Path(".") else "snapshot")

    return damage


def _cut(name, at):
    def damage(folder):
        if at is None:
            (folder / name).unlink()
        else:
            os.truncate(folder / name, at)
        return str(name.name if name.parent == Path(".") else "snapshot")

    return damage


# -- in a process of its own, so that a crash of the process would be seen -----------------------------------------


def all_damage(folder, count, say=print):
    """Flips, header bytes and cuts, of a folder that was closed and of one that was not."""
    totals = Counter()
    for how in ("flips", "header_flips", "cuts"):
        for closed in (True, False):
            code = (
                "import sys, json; from pathlib import Path; from live import faults;"
                f"found = faults.damaged(Path({str(folder)!r}), faults.{how}, {count}, {count}, {closed});"
                "print(json.dumps([[*k, v] for k, v in found.items()]))"
            )
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
            assert done.returncode == 0, f"{how}, closed={closed}: exit {done.returncode}\n{done.stderr[-2000:]}"
            for result, where, number in json.loads(done.stdout):
                totals[how, result] += number
                totals[how, result, where] += number
    for (how, result, *where), number in sorted(totals.items()):
        if not where:
            parts = {key[2]: n for key, n in totals.items() if key[:2] == (how, result) and len(key) == 3}
            say(f"{how}: {number} {result} {parts}")
    return totals


# -- full, read-only and failing disks ----------------------------------------------------------------------------


def full_disk(folder, say=print):
    """A small tmpfs that fills up: what was acknowledged is there, and it goes on when there is room again."""
    mount = Path(folder) / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode:
        return None
    try:
        return _fill(mount, say)
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False)


def _free(mount):
    found = os.statvfs(mount)
    return found.f_bavail * found.f_frsize


def _fill(mount, say):
    X, y = rows(4, 4000, 0.8)
    clf = small_model()
    settings = Settings(snapshot_every=200)
    live = LiveModel.create(mount / "live", clf, settings)
    twin = LiveModel.create(Path(tempfile.mkdtemp()) / "twin", clf, settings)
    filler = mount / "filler"
    refused, i = 0, 0
    filler.write_bytes(bytes(_free(mount) - 400_000))
    while i < 1500 or not refused:
        try:
            live.predict_then_learn(X[i : i + 5], y[i : i + 5])
        except JournalError as error:
            assert "full" in str(error), error
            refused += 1
            if refused == 3:
                filler.unlink(missing_ok=True)
                for junk in (mount / "live").glob("snapshots/.hedgerow-*"):
                    junk.unlink()
            assert refused < 50, error
            continue
        twin.predict_then_learn(X[i : i + 5], y[i : i + 5])
        i += 5
    for name, array in live.clf.learner_.arrays().items():
        assert np.array_equal(array, twin.clf.learner_.arrays()[name]), name
    live.close()
    subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
    try:
        LiveModel.open(mount / "live")
        raise AssertionError("a read-only disk was opened")
    except JournalError as error:
        assert "Read-only" in str(error), error
    subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
    live = LiveModel.open(mount / "live")
    live.predict_then_learn(X[i : i + 5], y[i : i + 5])
    twin.predict_then_learn(X[i : i + 5], y[i : i + 5])
    seen = live.clf.seen_
    live.close()
    with LiveModel.open(mount / "live") as again:
        assert again.clf.seen_ == seen == twin.clf.seen_
    twin.close()
    say(f"full disk: {refused} refusals, then went on; read-only: refused, then went on; {seen} labels, none lost")
    return refused


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long calls;
static int fails(int fd) {
    const char *switch_file = getenv("FAIL_WHEN");
    char link[64], path[4096];
    if (!switch_file || access(switch_file, F_OK)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    if (!strstr(path, "journal.sqlite")) return 0;
    return ++calls % 3 == 0;
}
#define WRAP(type, name, args, pass) type name args { \
    static type (*real) args; if (!real) real = dlsym(RTLD_NEXT, #name); \
    if (fails(fd)) { errno = EIO; return -1; } return real pass; }
WRAP(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
WRAP(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRAP(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, fsync, (int fd), (fd))
"""


def failing_disk(folder, say=print):
    """Writes of the journal that fail with EIO now and then: nothing acknowledged is lost, nothing half done stays."""
    if shutil.which("gcc") is None:
        return None
    folder = Path(folder)
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-o", str(folder / "shim.so"), str(folder / "shim.c"), "-ldl"], check=True
    )
    env = {
        **os.environ, "LD_PRELOAD": str(folder / "shim.so"), "FAIL_WHEN": str(folder / "now"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    code = f"from live import faults; print(faults._feed_a_failing_disk({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    refused = int(done.stdout.split()[-1])
    say(f"failing disk: {refused} refusals by EIO, every acknowledged label there once, state bit-equal")
    return refused


def _feed_a_failing_disk(folder):
    folder = Path(folder)
    X, y = rows(4, 2000, 0.8)
    clf, settings = small_model(), Settings(snapshot_every=100)
    live = LiveModel.create(folder / "live", clf, settings)
    twin = LiveModel.create(folder / "twin" / "live", clf, settings)
    refused, i, tries = 0, 0, 0
    while i < 400:
        tries += 1
        assert tries < 3000
        bad = tries % 4 == 0
        (folder / "now").touch() if bad else (folder / "now").unlink(missing_ok=True)
        ids = [f"r{k}" for k in range(i, i + 4)]
        try:
            live.predict_then_learn(X[i : i + 4], y[i : i + 4], ids)
        except JournalError as error:
            assert "I/O" in str(error) or "Input/output" in str(error), error
            refused += 1
            continue
        (folder / "now").unlink(missing_ok=True)
        twin.predict_then_learn(X[i : i + 4], y[i : i + 4], ids)
        i += 4
    (folder / "now").unlink(missing_ok=True)
    assert live.clf.seen_ == twin.clf.seen_ == 400, (live.clf.seen_, twin.clf.seen_)
    for name, array in live.clf.learner_.arrays().items():
        assert np.array_equal(array, twin.clf.learner_.arrays()[name]), name
    live.close()
    with LiveModel.open(folder / "live") as again:
        assert again.clf.seen_ == 400
    twin.close()
    assert refused > 20, refused
    return refused


if __name__ == "__main__":
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        all_damage(place, int(sys.argv[1]) if len(sys.argv) > 1 else 200)
        print(full_disk(place), failing_disk(place), f"{time.monotonic() - began:.0f} s")
