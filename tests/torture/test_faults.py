"""Damaged files, full disks, disks that fail: what a live model does with them.

Every damage is either reported (an error of ours that says so, or a snapshot that is passed over with a message), or
changes nothing that was written: the state, every event and every label are as they were.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.streams import assert_same_arrays, rows, small_model
from torture.harness import size

from bench.measure import child
from hedgerow.core.errors import HedgerowError
from hedgerow.live import JournalError, LiveModel, Settings

# -- flips and cuts --------------------------------------------------------------------------------------------------

IGNORED = ("lock", "journal.sqlite-shm")  # who has it, and an index that SQLite makes anew: neither is content
HEADERS = {"journal.sqlite": 100, "journal.sqlite-wal": 56, "head": 10**6}
SNAPSHOT_HEADER = size(40, 300)


@pytest.mark.parametrize("how", ["flips", "header flips", "cuts"])
def test_damage_is_reported_or_changes_nothing(tmp_path, how, note):
    """A folder that was closed and one that a crash left; in processes of their own, so that a crash is seen."""
    totals = Counter()
    for closed in (True, False):
        for result, where, number in child(damaged, tmp_path, how, size(40, 5000), closed):
            totals[result] += number
            totals[f"{result}, {where}"] += number
    assert totals["reported"] > 5
    assert totals["passed over"] > 5
    note(**totals)


def damaged(folder, how, count, closed):
    """Damage a copy of a good folder `count` times, each on its own: (outcome, file, how often)."""
    logging.getLogger("hedgerow.live").propagate = False
    rng, totals = random.Random(count), Counter()
    with tempfile.TemporaryDirectory(dir=folder) as work:
        good = good_folder(Path(work), closed)
        live = LiveModel.open(shutil.copytree(good, Path(work) / "expected"))
        expected = content(live)
        live._owner.release()
        copied = Path(work) / "damaged"
        for name, change in changes(good, how, rng, count):
            shutil.copytree(good, copied)
            change(copied / name)
            totals[outcome(copied, expected), "snapshot" if name.parent != Path() else name.name] += 1
            shutil.rmtree(copied)
    return [[*key, number] for key, number in totals.items()]


def good_folder(folder, closed):
    """A live model with blocks, late labels and events that wait; closed, or left as a crash leaves it."""
    X, y = rows(4, 130, 0.8)
    with LiveModel.create(folder / "live", small_model(), Settings(snapshot_every=40)) as live:
        live.predict_then_learn(X[:50], y[:50])
        for i in range(50, 120):
            live.predict(X[i], id=f"e{i}")
            if i >= 60:
                live.label(f"e{i - 10}", y[i - 10])
        live._snapshots.wait()
        if not closed:
            return Path(shutil.copytree(folder / "live", folder / "crashed"))
    return folder / "live"


def changes(good, how, rng, count):
    """Bits flipped anywhere (every file as likely), every byte of every header, files cut short or gone."""
    names = [path.relative_to(good) for path in sorted(good.rglob("*")) if path.is_file() and path.name not in IGNORED]
    sizes = {name: (good / name).stat().st_size for name in names}
    if how == "flips":
        for name in rng.choices(names, k=count):
            yield name, flip(rng.randrange(max(sizes[name], 1)), 1 << rng.randrange(8))
    for name in names if how == "header flips" else ():
        for at in range(min(HEADERS.get(name.name, SNAPSHOT_HEADER), sizes[name])):
            yield name, flip(at, 1 << rng.randrange(8))
    for name in names if how == "cuts" else ():
        for _ in range(max(count // 8, 2)):
            yield name, partial(os.truncate, length=rng.randrange(max(sizes[name], 1)))
        yield name, Path.unlink


def flip(at, bit):
    def change(path):
        data = bytearray(path.read_bytes())
        if at < len(data):
            data[at] ^= bit
        path.write_bytes(data)

    return change


def content(live):
    """A digest of all that the journal and the model know."""
    digest = hashlib.sha256()
    for table in ("event", "answer", "step", "history", "mark"):
        for row in live._journal.rows(f"SELECT * FROM {table} ORDER BY number"):
            digest.update(repr(row).encode())
    for name, array in sorted(live.clf.learner_.arrays().items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def outcome(folder, expected):
    """ "reported", "passed over" (a snapshot, with a message), or "harmless"; anything else is an error."""
    messages, logger = [], logging.getLogger("hedgerow.live")
    handler = logging.Handler(logging.ERROR)
    handler.emit = messages.append
    logger.addHandler(handler)
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
        return "reported"
    finally:
        logger.removeHandler(handler)
    assert same, "a change that nobody noticed"
    return "passed over" if messages else "harmless"


# -- full, read-only and failing disks -------------------------------------------------------------------------------


def test_a_full_disk_and_a_read_only_one(tmp_path, note):
    """A small tmpfs that fills up: what was acknowledged is there, and it goes on when there is room again."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(mount)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no small disk to fill: mounting a tmpfs needs the superuser")
    try:
        note(refused=_fill(mount, tmp_path / "twin"))
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False)


def _fill(mount, twin_folder):
    X, y = rows(4, 4000, 0.8)
    clf, settings, filler, refused, i = small_model(), Settings(snapshot_every=200), mount / "filler", 0, 0
    live, twin = LiveModel.create(mount / "live", clf, settings), LiveModel.create(twin_folder, clf, settings)
    free = os.statvfs(mount)
    filler.write_bytes(bytes(free.f_bavail * free.f_frsize - 400_000))
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
    assert refused >= 3
    assert_same_arrays(live.clf.learner_.arrays(), twin.clf.learner_.arrays())
    live.close()
    subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
    with pytest.raises(JournalError, match="Read-only"):
        LiveModel.open(mount / "live")
    subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
    with LiveModel.open(mount / "live") as live, twin:
        for model in (live, twin):
            model.predict_then_learn(X[i : i + 5], y[i : i + 5])
        seen = live.clf.seen_
        assert seen == twin.clf.seen_
    with LiveModel.open(mount / "live") as again:
        assert again.clf.seen_ == seen
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


def test_a_disk_that_fails(tmp_path, note):
    """Writes of the journal that fail with EIO now and then: nothing acknowledged is lost, nothing half done stays."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: apt-get install gcc")
    (tmp_path / "shim.c").write_text(SHIM)
    words = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(tmp_path / "shim.so"), str(tmp_path / "shim.c"), "-ldl"]
    subprocess.run(words, check=True)
    env = {"LD_PRELOAD": str(tmp_path / "shim.so"), "FAIL_WHEN": str(tmp_path / "now")}
    refused = child(feed_a_failing_disk, tmp_path, env=env, timeout=300)
    assert refused > 20
    note(refused=refused)


def feed_a_failing_disk(folder):
    folder, wanted = Path(folder), 400
    X, y = rows(4, wanted, 0.8)
    clf, settings, now = small_model(), Settings(snapshot_every=100), folder / "now"
    live = LiveModel.create(folder / "live", clf, settings)
    twin = LiveModel.create(folder / "twin" / "live", clf, settings)
    refused, i, tries = 0, 0, 0
    while i < wanted:
        tries += 1
        assert tries < 8 * wanted
        if tries % 4 == 0:
            now.touch()
        ids = [f"r{k}" for k in range(i, i + 4)]
        try:
            live.predict_then_learn(X[i : i + 4], y[i : i + 4], ids)
        except JournalError as error:
            assert "I/O" in str(error) or "Input/output" in str(error), error
            refused += 1
            continue
        finally:
            now.unlink(missing_ok=True)
        twin.predict_then_learn(X[i : i + 4], y[i : i + 4], ids)
        i += 4
    assert live.clf.seen_ == twin.clf.seen_ == wanted, (live.clf.seen_, twin.clf.seen_)
    assert_same_arrays(live.clf.learner_.arrays(), twin.clf.learner_.arrays())
    live.close()
    twin.close()
    with LiveModel.open(folder / "live") as again:
        assert again.clf.seen_ == wanted
    return refused
