"""`hedgerow doctor`: what is installed, with a remedy for every problem. `hedgerow warm`: precompile the kernels."""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, version
from typing import Any

import numpy as np

import hedgerow
from hedgerow.core.arrays import Array

OK = "ok"
NOTE = "note"
PROBLEM = "problem"
FOR_DEVELOPERS = ("all", "bench", "dev")
REMEDY = (
    "error: compiled kernels could not be saved, so every process compiles them again. Run this as a user who can "
    "write to the package's folder (in an image: before the user changes), or set NUMBA_CACHE_DIR or XDG_CACHE_HOME to "
    "a folder of your own that others cannot write."
)
PROCESSOR = (
    "They fit this type of processor. For others, set NUMBA_CPU_NAME=generic now and at run time."
)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. A note is something that only some need; a problem is in everybody's way."""

    what: str
    found: str
    state: str = OK
    remedy: str = ""


def versions() -> Iterator[Finding]:
    """Of hedgerow, Python, and the packages of the core and of the extras, each against what hedgerow asks for."""
    yield Finding("hedgerow", hedgerow.__version__)
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    lacking: dict[str, bool] = {}
    found: dict[str, list[str]] = {}
    for name, least, extra in _requirements():
        text, fine = _installed(name, least)
        if not extra:
            remedy = "" if fine else f"pip install --upgrade '{name}>={least}'"
            yield Finding(name, text, OK if fine else PROBLEM, remedy)
        elif extra not in FOR_DEVELOPERS:
            found.setdefault(extra, []).append(f"{name} {text}")
            lacking[extra] = lacking.get(extra, False) or not fine
    for extra, texts in found.items():
        state, remedy = (NOTE, f"pip install 'hedgerow[{extra}]'") if lacking[extra] else (OK, "")
        yield Finding(f"extra {extra}", ", ".join(texts), state, remedy)


def cache() -> Iterator[Finding]:
    """Whether compiled kernels can be kept, and where."""
    from hedgerow.kernels import compiled

    folders = compiled.folders()
    for folder, reason in folders.items():
        if reason:
            state = OK if reason == compiled.READ_ONLY else NOTE
            yield Finding("compiled kernels", f"not kept in {folder}: {reason}", state)
        else:
            yield Finding("compiled kernels", f"{len(list(folder.glob('*.nbc')))} kept in {folder}")
    if all(folders.values()):
        yield Finding(
            "compiled kernels", "not saved anywhere", PROBLEM, REMEDY.removeprefix("error: ")
        )


def _requirements() -> Iterator[tuple[str, str, str]]:
    """(package, least version, extra) for all that the metadata of hedgerow names."""
    try:
        lines = metadata("hedgerow").get_all("Requires-Dist") or []
    except PackageNotFoundError:  # run from a folder, not installed
        return
    for line in lines:
        name, least, extra = (
            re.search(pattern, line) for pattern in (r"^[\w.-]+", r">=([\d.]+)", r"extra == .(\w+)")
        )
        if name and name[0] != "hedgerow":
            yield name[0], least[1] if least else "0", extra[1] if extra else ""


def _installed(name: str, least: str) -> tuple[str, bool]:
    """The version of a package in words, and whether it will do."""
    try:
        installed = version(name)
    except PackageNotFoundError:
        return "not installed", False
    have, need = (
        [int(number) for number in re.findall(r"\d+", text.partition("+")[0])]
        for text in (installed, least)
    )
    return (installed, True) if have >= need else (f"{installed}, older than {least}", False)


def examine(
    checks: Iterable[Callable[[], Iterable[Finding]]] = (versions, cache),
) -> list[Finding]:
    """Every check; one that cannot be made is a problem of its own and keeps no other from being made."""
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += check()
        except Exception as error:  # a broken package may raise anything when it is imported
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            findings.append(
                Finding(check.__name__, text, PROBLEM, "pip install --force-reinstall hedgerow")
            )
    return findings


# -- hedgerow warm ----------------------------------------------------------------------------------------------


def warm(progress: Callable[[int, int, str], None]) -> tuple[list[str], int]:
    """A small fit and stream of every method, in both precisions, and a fleet: what to print, and the exit code."""
    from hedgerow.kernels.compiled import folders, statistics
    from hedgerow.methods import METHODS, PaperOptions

    began = time.perf_counter()
    kinds: list[tuple[str, dict[str, Any]]] = [(method, {}) for method in METHODS]
    kinds.append(("oddm", {"options": PaperOptions(head="arow")}))
    runs = [
        (method, options, dtype) for method, options in kinds for dtype in (np.float64, np.float32)
    ]
    for done, (method, options, dtype) in enumerate(runs):
        progress(done, len(runs), f"{method}, {np.dtype(dtype)}")
        _stream(method, options, dtype)
    _batch()
    progress(len(runs), len(runs), "done")
    compilations, loaded, unsaved = statistics()
    kept = [
        f"not written: {folder}: {why}" if why else f"kept in {folder}"
        for folder, why in folders().items()
    ]
    told = f"{compilations} kernels compiled, {loaded} found compiled, {time.perf_counter() - began:.1f} s"
    return [told, *kept, REMEDY if unsaved else PROCESSOR], 1 if unsaved else 0


def _stream(method: str, options: dict[str, Any], dtype: type) -> None:
    """Row by row, long enough for what happens every fifty labels; then in blocks, without weights and with."""
    from hedgerow import OnlineTransferClassifier

    X: Array = np.random.default_rng(0).normal(size=(180, 12)).astype(dtype)
    y = np.arange(180) % 3
    clf = OnlineTransferClassifier(method, **options).fit(
        X, y, sample_domain=np.repeat([0, 1, -1], 60)
    )
    target = X[120:]
    labels = y[120:]
    for x, label in zip(target, labels, strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)
    clf.predict(target)
    clf.predict_then_learn(target, labels)
    clf.partial_fit(target, labels, sample_weight=np.full(len(labels), 0.5))


def _batch() -> None:
    """A batch of mixed keys; its preprocessing has every kind of running statistics that rows of numbers may have."""
    from hedgerow import Domain
    from hedgerow.fleet import Fleet

    X: Array = np.random.default_rng(0).normal(size=(60, 12))
    y = np.arange(60) % 3
    with Fleet(
        [Domain("a", X[:30], y[:30]), Domain("b", X[30:], y[30:])], preprocess=("zscore", "centre")
    ) as fleet:
        fleet.predict(range(6), X[:6])
        fleet.learn(range(6), X[:6], y[:6])
