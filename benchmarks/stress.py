"""One model used by several threads at once: does it crash, does it become another model, are files torn?

    python benchmarks/stress.py [--seconds 60] [--methods hedgerow,oddm]

Each method gets a process of its own, so that a crash is seen. In rounds, one thread learns a stream with a new class
in its middle, one predicts, one saves and reads every property. After each round the model is compared with one that
learned the same labels alone, and every saved file with the same place of that stream.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("hedgerow", "hedgerow-linear", "oddm", "homotlms")
THREADS = ("learns", "predicts", "saves and reads")
# What one thread predicts or saves decides whether a step finds its row predicted already, or its products dropped at a
# flush: the same numbers, added up in another order.
ROUNDING = 1e-11
COUNTS = ("rounds", "predictions", "files", "errors", "differ", "torn")


def task(seed: int, rows: int = 160) -> tuple[list[Any], Any, np.ndarray, np.ndarray]:
    """Two sources of three classes, warm-up rows, and a stream whose fourth class comes in its middle."""
    from hedgerow import Domain

    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(4, 12))

    def domain(size: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
        codes = rng.integers(0, classes, size=size)
        return rng.normal(size=(size, 12)) + centres[codes] + rng.normal(size=12), np.array([f"c{k}" for k in codes])

    sources = [Domain(f"s{i}", *domain(40, 3)) for i in range(2)]
    warmup = Domain("t", domain(20, 3)[0])
    (X, y), (late, late_y) = domain(rows // 2, 3), domain(rows - rows // 2, 4)
    return sources, warmup, np.vstack([X, late]), np.concatenate([y, late_y])


def worker(work: Callable[[], None], stop: threading.Event, failed: list[str], once: bool = False) -> threading.Thread:
    """A thread that repeats `work` until it is stopped; what it raises is kept."""

    def run() -> None:
        try:
            work()
            while not (stop.is_set() or once):
                work()
        except BaseException:
            failed.append(traceback.format_exc())
        if once or failed:
            stop.set()

    return threading.Thread(target=run)


def one_round(fitted: Any, X: np.ndarray, y: np.ndarray, folder: Path) -> dict[str, Any]:
    """The three threads over one stream."""
    clf, stop, failed, counts = copy.deepcopy(fitted), threading.Event(), [], {"predictions": 0}
    rng, files = np.random.default_rng(0), []

    def learn() -> None:
        for x, label in zip(X, y, strict=True):
            clf.learn_one(x, label)

    def predict() -> None:
        x = X[rng.integers(len(X))]
        shares = clf.predict_proba_one(x)
        assert abs(sum(shares.values()) - 1) < 1e-6, shares
        assert clf.predict_one(x) in clf.classes_
        assert len(clf.predict(X[:3])) == 3
        if hasattr(clf, "explain_one"):
            told = clf.explain_one(x)
            assert told.label in told.probabilities
            assert abs(sum(told.weights.values()) - 1) < 1e-6, told
        counts["predictions"] += 4

    def save() -> None:
        if hasattr(clf, "to_bytes") and len(files) % 2:
            files.append(clf.to_bytes())
        else:
            clf.save(folder / "model")
            files.append((folder / "model").read_bytes())
        assert abs(clf.weights_.sum() - 1) < 1e-6
        assert len(clf.discrepancy_) == 2
        assert clf.bound_ >= 0
        assert clf.mistakes_ <= clf.seen_ <= len(X)

    threads = [worker(learn, stop, failed, once=True), worker(predict, stop, failed), worker(save, stop, failed)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    different, torn = compared(fitted, X, y, clf, files, folder)
    return {"rounds": 1, "files": len(files), "errors": failed, "differ": different, "torn": torn, **counts}


def compared(
    fitted: Any, X: np.ndarray, y: np.ndarray, clf: Any, files: list[bytes], folder: Path
) -> tuple[list[str], list[str]]:
    """Against a model that learns the labels alone: what differs of the model, and of each file at its place."""
    alone, torn, at, done = copy.deepcopy(fitted), [], {}, 0
    for data in files:
        (folder / "model").write_bytes(data)
        try:
            loaded = type(clf).load(folder / "model")
        except Exception as error:
            torn.append(f"does not load: {error}")
            continue
        at.setdefault(loaded.seen_, []).append(loaded)
    for seen in sorted(at):
        for x, label in zip(X[done:seen], y[done:seen], strict=True):
            alone.learn_one(x, label)
        done = seen
        for loaded in at[seen]:
            torn += [f"at label {seen}: {name}" for name in differences(loaded, alone)]
    for x, label in zip(X[done:], y[done:], strict=True):
        alone.learn_one(x, label)
    return list(differences(clf, alone)), torn


def differences(one: Any, other: Any) -> Iterator[str]:
    """What differs by more than rounding."""
    if one.classes_.tolist() != other.classes_.tolist():
        yield f"classes {one.classes_.tolist()} and {other.classes_.tolist()}"
    if (one.seen_, one.mistakes_) != (other.seen_, other.mistakes_):
        yield f"{one.mistakes_} mistakes in {one.seen_}, {other.mistakes_} in {other.seen_}"
    a, b = known(one), known(other)
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b or a[name].shape != b[name].shape:
            yield f"{name}: not in both, or of another shape"
        elif a[name].dtype.kind == "f":
            scale = max(1.0, float(np.abs(b[name]).max(initial=0)))
            if not np.abs(a[name] - b[name]).max(initial=0) <= ROUNDING * scale:
                yield f"{name}: by {np.abs(a[name] - b[name]).max(initial=0):.2g}"
        elif not np.array_equal(a[name], b[name]):
            yield name


def known(clf: Any) -> dict[str, np.ndarray]:
    """All arrays but the priors, which a file leaves out once it has what became of them.

    Of our own learner's symmetric P only the upper triangle is kept up to date.
    """
    learner = clf.learner_
    arrays = learner.arrays() if hasattr(learner, "arrays") else learner.state
    half = {name: np.triu(array) for name, array in arrays.items() if name.startswith("space.") and name[-2:] == ".P"}
    return {name: array for name, array in (arrays | half).items() if "prior." not in name}


def child(method: str, seconds: float, seed: int = 0) -> dict[str, Any]:
    """Rounds of one method for so long, and what went wrong."""
    from hedgerow import OnlineTransferClassifier

    total: dict[str, Any] = {"method": method, "rounds": 0, "predictions": 0, "files": 0}
    total |= {"errors": [], "differ": [], "torn": []}
    with tempfile.TemporaryDirectory() as folder:
        sources, warmup, X, y = task(seed)
        fitted = OnlineTransferClassifier(method).fit_domains(sources, warmup)
        serial = copy.deepcopy(fitted)  # compiles all that the threads will need
        for x, label in zip(X[:60], y[:60], strict=True):
            serial.predict_proba_one(x)
            serial.learn_one(x, label)
        sys.setswitchinterval(1e-5)
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            found = one_round(fitted, X, y, Path(folder))
            for name in COUNTS:
                total[name] += found[name]
    return total | {"seconds": round(time.monotonic() - began, 1)}


def run_child(method: str, seconds: float, seed: int = 0) -> dict[str, Any]:
    """`child` in a process of its own; a crash is one more number."""
    command = [sys.executable, __file__, "--child", method, "--seconds", str(seconds), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds * 20 + 300)
    if done.returncode or not done.stdout.strip():
        return {"method": method, "crash": done.returncode, "stderr": done.stderr[-3000:]}
    return {"crash": 0, **json.loads(done.stdout.strip().splitlines()[-1])}


def main() -> int:
    """A line a method, then the sum of all; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each method")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child, given.seconds, given.seed)))
        return 0
    results = [run_child(method, given.seconds, given.seed) for method in given.methods.split(",")]
    for found in results:
        if found["crash"]:
            print(f"{found['method']}: CRASHED ({found['crash']})\n{found['stderr']}")
            continue
        print(
            f"{found['method']}: {len(THREADS)} threads x {found['seconds']} s, {found['rounds']} streams, "
            f"{found['predictions']} predictions, {found['files']} files"
        )
        for kind in ("errors", "differ", "torn"):
            for what in found[kind][:3]:
                print(f"  {kind}: {what}")
    bad = {kind: sum(len(found.get(kind, [])) for found in results) for kind in ("errors", "differ", "torn")}
    crashes = sum(bool(found["crash"]) for found in results)
    print(
        f"{len(THREADS)} threads x {len(results)} methods x {given.seconds:g} s: {crashes} crashes, "
        f"{bad['errors']} exceptions, {bad['differ']} arrays that differ, {bad['torn']} torn files"
    )
    return int(bool(crashes or sum(bad.values())))


if __name__ == "__main__":
    sys.exit(main())
