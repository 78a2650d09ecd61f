"""Damaged files, full disks, disks that fail: what a live model does with them.

Every damage is either reported (an error of ours that says so, or a snapshot that is passed over with a message), or
changes nothing that was written: the state, every event and every label are as they were.
"""

from __future__ import annotations

import asyncio
import ctypes
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
from typing import ClassVar

import httpx
import numpy as np
import pytest
from support.streams import assert_same_arrays, rows, small_model
from torture.harness import size

from bench.measure import child
from hedgerow.cli.journals import inspected
from hedgerow.core.errors import HedgerowError
from hedgerow.fleet import Fleet
from hedgerow.fleet import Settings as FleetSettings
from hedgerow.fleet.store import FleetStore
from hedgerow.live import JournalError, LiveModel, Settings
from hedgerow.live.journal import Journal
from hedgerow.live.look import export
from hedgerow.service import ServiceSettings, routes
from hedgerow.service.app import build
from hedgerow.store import copy_folder

# -- flips and cuts --------------------------------------------------------------------------------------------------

IGNORED = (
    "lock",
    "journal.sqlite-shm",
)  # who has it, and an index that SQLite makes anew: neither is content
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
    rng = random.Random(count)
    totals = Counter()
    with tempfile.TemporaryDirectory(dir=folder) as work:
        good = good_folder(Path(work), closed)
        live = LiveModel.open(shutil.copytree(good, Path(work) / "expected"))
        expected = content(live)
        live._owner.release()
        copied = Path(work) / "damaged"
        for name, change in changes(good, how, rng, count):
            shutil.copytree(good, copied)
            change(copied / name)
            totals[
                outcome(copied, expected), "snapshot" if name.parent != Path() else name.name
            ] += 1
            shutil.rmtree(copied)
    return [[*key, number] for key, number in totals.items()]


def good_folder(folder, closed):
    """A live model with blocks, late labels and events that wait; closed, or left as a crash leaves it."""
    X, y = rows(4, 130, 0.8)
    with LiveModel.create(folder / "live", small_model(), Settings(snapshot_every=40)) as live:
        live.predict_then_learn(X[:50], y[:50])
        for i in range(50, 120):
            live.predict(X[i], ids=f"e{i}")
            if i >= 60:
                live.label(f"e{i - 10}", y[i - 10])
        live._snapshots.wait()
        if not closed:
            return Path(shutil.copytree(folder / "live", folder / "crashed"))
    return folder / "live"


def changes(good, how, rng, count):
    """Bits flipped anywhere (every file as likely), every byte of every header, files cut short or gone."""
    names = [
        path.relative_to(good)
        for path in sorted(good.rglob("*"))
        if path.is_file() and path.name not in IGNORED
    ]
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
    messages = []
    logger = logging.getLogger("hedgerow.live")
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
    clf = small_model()
    settings = Settings(snapshot_every=200)
    filler = mount / "filler"
    refused = 0
    i = 0
    live = LiveModel.create(mount / "live", clf, settings)
    twin = LiveModel.create(twin_folder, clf, settings)
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
    assert inspected(mount / "live")
    assert export(mount / "live", twin_folder.with_name("events.jsonl"))
    copy_folder(mount / "live", twin_folder.with_name("copy"), Journal)
    subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
    with LiveModel.open(mount / "live") as live, twin:
        for model in (live, twin):
            model.predict_then_learn(X[i : i + 5], y[i : i + 5])
        seen = live.clf.seen_
        assert seen == twin.clf.seen_
    with LiveModel.open(mount / "live") as again:
        assert again.clf.seen_ == seen
    return refused


# -- a fault at every write ------------------------------------------------------------------------------------------

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static char prefix[4096];
static long calls, at, dead;
void fault_arm(const char *folder, long n, long from_then_on) {
    snprintf(prefix, sizeof prefix, "%s", folder); calls = 0; at = n; dead = from_then_on; }
long fault_calls(void) { return calls; }
/* what was written since the last good fsync: a failed one loses it */
struct piece { struct piece *before; dev_t dev; ino_t ino; off_t size, offset; size_t n; char data[]; };
static struct piece *pieces;
static int path_of(int fd, char *path) {
    char link[64]; snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095); if (n < 0) return 0; path[n] = 0; return 1; }
static int fails(const char *path) {
    if (!prefix[0] || strncmp(path, prefix, strlen(prefix)) || strstr(path, "-shm")) return 0;
    ++calls;
    return at && (dead ? calls >= at : calls == at); }
static int fd_fails(int fd) { char path[4096]; return path_of(fd, path) && fails(path); }
static void remember(int fd, off_t offset, size_t n) {
    char path[4096]; struct stat s;
    if (!prefix[0] || !path_of(fd, path) || strncmp(path, prefix, strlen(prefix))) return;
    if (fstat(fd, &s) || !S_ISREG(s.st_mode)) return;
    size_t there = offset >= s.st_size ? 0 : s.st_size - offset < (off_t)n ? s.st_size - offset : n;
    struct piece *p = malloc(sizeof *p + there);
    *p = (struct piece){pieces, s.st_dev, s.st_ino, s.st_size, offset, there};
    int again = open(path, O_RDONLY);
    if (again >= 0) { pread(again, p->data, there, offset); close(again); }
    pieces = p; }
static void settle(int fd, int lost) {
    struct stat s; if (fstat(fd, &s)) return;
    static ssize_t (*put)(int, const void *, size_t, off_t); if (!put) put = dlsym(RTLD_NEXT, "pwrite");
    static int (*cut)(int, off_t); if (!cut) cut = dlsym(RTLD_NEXT, "ftruncate");
    for (struct piece **where = &pieces; *where;) {
        struct piece *p = *where;
        if (p->dev != s.st_dev || p->ino != s.st_ino) { where = &p->before; continue; }
        if (lost) { put(fd, p->data, p->n, p->offset); cut(fd, p->size); }
        *where = p->before; free(p); } }
#define WRITE(type, name, args, pass, offset) type name args { \
    static type (*real) args; if (!real) real = dlsym(RTLD_NEXT, #name); \
    if (fd_fails(fd)) { errno = EIO; return -1; } remember(fd, offset, n); return real pass; }
WRITE(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o), o)
WRITE(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o), o)
WRITE(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), lseek(fd, 0, SEEK_CUR))
#define SYNC(name) int name(int fd) { \
    static int (*real)(int); if (!real) real = dlsym(RTLD_NEXT, #name); \
    if (fd_fails(fd)) { settle(fd, 1); errno = EIO; return -1; } settle(fd, 0); return real(fd); }
SYNC(fsync) SYNC(fdatasync)
#define CUT(name, type) int name(int fd, type n) { \
    static int (*real)(int, type); if (!real) real = dlsym(RTLD_NEXT, #name); \
    if (fd_fails(fd)) { errno = EIO; return -1; } return real(fd, n); }
CUT(ftruncate, off_t) CUT(ftruncate64, off64_t)
#define NAMES(name, args, pass) int name args { \
    static int (*real) args; if (!real) real = dlsym(RTLD_NEXT, #name); \
    if (fails(path)) { errno = EIO; return -1; } return real pass; }
NAMES(rename, (const char *path, const char *to), (path, to))
NAMES(unlink, (const char *path), (path))
NAMES(mkdir, (const char *path, mode_t mode), (path, mode))
"""
X, Y = rows(4, 200, 0.8)


class Live:
    """A live model with all that it can have: events that wait, labels, a model that was replaced."""

    @staticmethod
    def create(folder):
        settings = Settings(snapshot_every=15)
        return LiveModel.create(folder, small_model("pa"), settings)

    @classmethod
    def fill(cls, folder):
        with cls.open(folder) as live:
            live.predict_then_learn(X[:20], Y[:20])
            live.replace(small_model("paio"))
            live.predict(X[20:40], [f"e{i}" for i in range(20, 40)])
            live.label_many([(f"e{i}", Y[i]) for i in range(20, 30)])
        live.backup(folder.with_name("backup"))

    @staticmethod
    def open(folder):
        return LiveModel.open(folder)

    @staticmethod
    def state(live):
        """All that must be there or not: counts, events and their labels, the model."""
        events = [(e["id"], e["status"], e["label"]) for e in live.latest(1000)]
        counts = [live.stats()[name] for name in ("events", "labels", "seen", "expired", "pending")]
        return repr([counts, events, live.stats()["model"]["replaced"], arrays_of(live.clf)])

    @staticmethod
    def settle(live):
        """Until what it does by itself is done."""
        live._snapshots.wait()

    @staticmethod
    def go_on(live):
        live.predict_then_learn(X[150:153], Y[150:153], ["x", "y", "z"])

    ACTIONS: ClassVar = {
        "predict": lambda live: live.predict(X[50:53], ["a", "b", "c"]),
        "label": lambda live: live.label_many([("e31", Y[31]), ("e30", Y[30]), ("e20", Y[20])]),
        "learn": lambda live: live.predict_then_learn(X[50:58], Y[50:58], list("abcdefgh")),
        "learn and take a snapshot": lambda live: live.predict_then_learn(
            X[50:70], Y[50:70], [f"n{i}" for i in range(20)]
        ),
        "snapshot": lambda live: live.snapshot(),
        "replace": lambda live: live.replace(small_model("pa")),
        "replace back": lambda live: live.replace_back(),
        "forget": lambda live: live.forget("e21", "e33"),
        "backup": lambda live: live.backup(live.folder.with_name("copy")),
        "restore": lambda live: copy_folder(
            live.folder.with_name("backup"), live.folder.with_name("copy"), Journal
        ),
        "close": lambda live: live.close(),
    }


def arrays_of(clf):
    arrays = sorted(clf.learner_.arrays().items())
    return [
        (name, hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()) for name, a in arrays
    ]


class Keyed:
    """A fleet with all that it can have: keys on disk, in memory and in the journal alone, events, a mark."""

    KEYS: ClassVar = [f"k{i % 30}" for i in range(90)]
    MANY: ClassVar = [f"new {i}" for i in range(150)]

    @staticmethod
    def create(folder):
        settings = FleetSettings(max_pending=5, keep_events=3)
        return Fleet(small_model("hedgerow-linear"), path=folder, memory=2**20, settings=settings)

    @classmethod
    def fill(cls, folder):
        fleet = cls.open(folder)
        fleet.learn(cls.KEYS[:60], X[:60], Y[:60], mark=60).flush()
        fleet.predict(["k1"] * 4 + ["k2"], X[60:65], [*list("abcd"), "a"])
        fleet.label("k1", "b", Y[61])
        fleet.learn(cls.KEYS[60:], X[60:90], Y[60:90], mark=90)
        fleet.backup(folder.with_name("backup"))
        fleet._let_go()  # without its last flush, as after a crash

    @staticmethod
    def open(folder):
        return Fleet.open(folder, memory=2**20)

    @staticmethod
    def state(fleet):
        """All that must be there or not: the mark, events and their labels, what each key has learned."""
        events = [
            (e.number, e.key, e.id, e.code, e.label, e.row)
            for e in fleet._store.events("1 ORDER BY number")
        ]
        keys = {
            key: hashlib.sha256(fleet.to_bytes(key)).hexdigest() for key in sorted(fleet.keys())
        }
        return repr([fleet.mark, fleet.stats()["pending"], events, keys])

    @staticmethod
    def settle(fleet):
        """It does nothing by itself."""

    @staticmethod
    def go_on(fleet):
        fleet.learn(["k1", "k2", "other"], X[150:153], Y[150:153], mark=153)

    ACTIONS: ClassVar = {
        "predict": lambda fleet: fleet.predict(["k1", "k2", "k1"], X[50:53], ["p", "p", "q"]),
        "predict, so that the oldest expire": lambda fleet: fleet.predict(
            "k1", X[50:54], [f"n{i}" for i in range(4)]
        ),
        "label": lambda fleet: fleet.label_many(
            [("k1", "a", Y[60]), ("k2", "a", Y[64]), ("k1", "b", "?")]
        ),
        "learn": lambda fleet: fleet.learn(Keyed.KEYS[:20], X[100:120], Y[100:120], mark=120),
        "learn and evict": lambda fleet: fleet.learn(Keyed.MANY, X[:150], Y[:150], mark=150),
        "put": lambda fleet: fleet.put("k3", fleet.to_bytes("k4")),
        "flush": lambda fleet: fleet.flush(),
        "forget": lambda fleet: fleet.forget("k1"),
        "backup": lambda fleet: fleet.backup(fleet.folder.with_name("copy")),
        "restore": lambda fleet: copy_folder(
            fleet.folder.with_name("backup"), fleet.folder.with_name("copy"), FleetStore
        ),
        "close": lambda fleet: fleet.close(),
    }


SUBJECTS = {"live": Live, "fleet": Keyed}
EITHER = ("snapshot",)  # a step of the journal, which is committed before its file is written


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: apt-get install gcc")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    words = [
        "gcc",
        "-shared",
        "-fPIC",
        "-O1",
        "-w",
        "-o",
        folder / "shim.so",
        folder / "shim.c",
        "-ldl",
    ]
    subprocess.run(list(map(str, words)), check=True)
    return {"LD_PRELOAD": str(folder / "shim.so")}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_fault_at_every_write(subject, shim, tmp_path, note):
    """Once, and from then on: what was answered is there, once; what was refused is not; it goes on afterwards."""
    most = size(7, 10**6)
    tried, wrong = child(try_faults, tmp_path, subject, most, env=shim, timeout=size(600, 7200))
    assert sum(tried.values()) > 100
    assert not wrong, "\n".join(wrong)
    note(points=sum(tried.values()), **tried)


def try_faults(folder, name, most):
    """How many faults of each action were tried, at most so many of each way of failing."""
    logging.disable(logging.CRITICAL)
    library = ctypes.CDLL(None)
    library.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long]
    library.fault_calls.restype = ctypes.c_long
    work = Path(folder) / "work"
    subject = SUBJECTS[name]
    good = Path(folder) / "good"
    subject.create(good / "it").close()
    shutil.copytree(good, Path(folder) / "new")
    subject.fill(good / "it")
    tried = Counter()
    wrong = []
    for action in ["create", "open", *subject.ACTIONS]:
        one = Trial(
            library, subject, Path(folder) / ("new" if action == "create" else "good"), work, action
        )
        calls = one.run(0, False)
        for lasting in (False, True):
            points = range(1, calls + 1)
            for n in (
                points
                if calls <= most
                else sorted(random.Random(n_of(action)).sample(points, most))
            ):
                tried[action] += 1
                try:
                    one.run(n, lasting)
                except Exception as error:
                    how = "from then on" if lasting else "once"
                    wrong.append(f"{action}, fault {n} {how}: {type(error).__name__}: {error}")
    return tried, wrong


def n_of(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


class Trial:
    """One action on a copy of a good folder, with a fault, and what must hold afterwards."""

    def __init__(self, library, subject, good, work, action):
        self.library = library
        self.subject = subject
        self.good = good
        self.work = work
        self.action = action
        self.after = self.later = None
        shutil.copytree(good, work)
        self.before = self.seen(work / "it")
        shutil.rmtree(work)

    def run(self, n, lasting):
        """How many calls that could have failed the action made."""
        try:
            return self._run(n, lasting)
        finally:
            self.library.fault_arm(b"", 0, 0)
            shutil.rmtree(self.work, ignore_errors=True)

    def _run(self, n, lasting):
        folder = self.work / "it"
        if self.action == "create":
            self.work.mkdir()
            actions = self.subject.create
        else:
            shutil.copytree(self.good, self.work)
            actions = self.subject.open
        acts = self.subject.ACTIONS.get(self.action)
        it = None if acts is None else self.subject.open(folder)
        self.library.fault_arm(str(self.work).encode(), n, lasting)
        error = None
        try:
            if acts is None:
                it = actions(folder)
            else:
                acts(it)
                self.subject.settle(it)
        except HedgerowError as refused:
            error = refused
        calls = self.library.fault_calls()
        self.library.fault_arm(b"", 0, 0)
        if error is not None:
            assert len(str(error)) > 20
        if error is not None and self.action == "create":
            it = (self.subject.open if "now: open it" in str(error) else actions)(folder)
        there = self.crashed()
        if not n:
            assert error is None, error
            self.after = there
        elif error is None:
            assert there == self.after, "answered, and not there"
        else:
            either = self.action in EITHER or "there when the folder is opened" in str(error)
            assert there == self.before or (either and there == self.after), (
                f"refused, and there: {error}"
            )
        self._go_on(it, folder, acts if error is not None else None)
        return calls

    def _go_on(self, it, folder, acts):
        """The same again, if it was refused; then more; then opened again."""
        if it is None or it.closed:
            it = self.subject.open(folder)
        if acts is not None and self.action != "close":
            acts(it)
        if self.action in ("backup", "restore"):
            assert self.seen(self.work / "copy") == self.before
        self.subject.go_on(it)
        it.close()
        later = self.seen(folder)
        self.later = self.later or later
        assert later == self.later, "it goes on otherwise"

    def crashed(self):
        """The state after a crash now."""
        copied = self.work / "crashed"
        shutil.copytree(self.work / "it", copied, ignore=shutil.ignore_patterns("lock", "*-shm"))
        try:
            return self.seen(copied)
        finally:
            shutil.rmtree(copied)

    def seen(self, folder):
        it = self.subject.open(folder)
        try:
            return self.subject.state(it)
        finally:
            it.close()


# -- a fault at every write of a service -----------------------------------------------------------------------------

REQUESTS = {
    "upload": ("PUT", "models/new", {"content": small_model("pa").to_bytes()}),
    "upload a fleet": (
        "PUT",
        "fleets/new",
        {"content": small_model("hedgerow-linear").to_bytes()},
    ),
    "replace": (
        "PUT",
        "models/live",
        {"content": small_model("pa").to_bytes(), "headers": {"If-Match": "*"}},
    ),
    "label": ("POST", "models/live/label", {"json": {"labels": [{"id": "e31", "label": "?"}]}}),
    "forget": ("POST", "fleets/keys/forget", {"json": {"keys": ["k1"]}}),
    "delete": ("DELETE", "models/live?confirm=live", {}),
}


def test_a_fault_at_every_write_of_a_request(shim, tmp_path, note):
    """No request is answered by an error inside; what was answered is there after a crash, what was refused is not."""
    tried = child(try_requests, tmp_path, size(5, 200), env=shim, timeout=size(600, 7200))
    assert min(tried.values()) > 5
    note(**tried)


def try_requests(folder, most):
    logging.disable(logging.CRITICAL)
    library = ctypes.CDLL(None)
    library.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long]
    library.fault_calls.restype = ctypes.c_long
    good = Path(folder) / "good"
    for subject, name in ((Live, "live"), (Keyed, "keys")):
        subject.create(good / name).close()
        subject.fill(good / name)
        shutil.rmtree(good / "backup")
    before = all_of(good)
    work = Path(folder) / "work"
    tried = Counter()

    async def checked(file):
        """The check takes a process of a second, and writes nothing."""

    routes.check_apart = checked
    for name, (method, path, body) in REQUESTS.items():

        def one(n, lasting, method=method, path=path, body=body):
            """The status, how many calls could have failed, and what is there after a crash, and after a retry."""
            shutil.copytree(good, work)

            async def ask(http):
                library.fault_arm(str(work).encode(), n, lasting)
                answer = await http.request(method, f"/v1/{path}", **body)
                calls = library.fault_calls()
                library.fault_arm(b"", 0, 0)
                shutil.copytree(work, crashed, ignore=shutil.ignore_patterns("lock", "*-shm"))
                if not answer.is_success:
                    await http.request(method, f"/v1/{path}", **body)
                return answer, calls

            crashed = work.with_name("crashed")
            try:
                answer, calls = asyncio.run(served(work, ask))
                return answer, calls, all_of(crashed), all_of(work)
            finally:
                shutil.rmtree(work)
                shutil.rmtree(crashed)

        answer, calls, _, after = one(0, False)
        assert answer.is_success, answer.text
        for lasting in (False, True):
            points = range(1, calls + 1)
            for n in random.Random(n_of(name)).sample(points, min(most, calls)):
                tried[name] += 1
                answer, _, there, again = one(n, lasting)
                said = f"{name}, fault {n}, {answer.status_code} {answer.text[:200]}"
                assert answer.status_code in (200, 201, 204, 503), said
                assert there == (after if answer.is_success else before), said
                assert again == after, said
    return tried


async def served(folder, ask):
    app = build(ServiceSettings(models=folder))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            while any(entry.state == "opening" for entry in app.state.models):
                await asyncio.sleep(0.01)
            return await ask(http)


def all_of(folder):
    """The state of every live model and fleet in a folder."""
    states = {}
    for path in sorted(folder.glob("[!.]*")):
        subject = Keyed if (path / FleetStore.FILE).exists() else Live
        it = subject.open(path)
        states[path.name] = subject.state(it)
        it.close()
    return states
