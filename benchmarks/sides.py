"""Two checkouts of the library side by side: the same stream, each checkout in a process of its own, asked in turns.

    with checkout("28a6f46") as before, Side(HERE, stream) as new, Side(before, stream) as old:
        for side in (new, old):
            side.fit("hedgerow")
        times = [(new.replay().seconds, old.replay().seconds) for _ in range(3)]

Both processes stay, so that a model is fitted once and a slow minute of the machine slows both sides.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "src"
ONE_SIDE = Path(__file__).with_name("one_side.py")
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Stream:
    """What both sides are given: labelled sources, unlabelled rows of the target, then its stream; labels are codes."""

    sources: Sequence[tuple[Any, Any]]
    together: Any
    warmup: Any
    X: Any
    y: Any

    @classmethod
    def of(cls, data: str, target: str) -> Stream:
        """The first split and the first order of a data set with this domain as the target (HEDGEROW_DATA)."""
        from hedgerow.experiment.preparation import order_of, prepare

        task = prepare(data, target, 0, data_dir=os.environ.get("HEDGEROW_DATA"))
        labels = [np.asarray(domain.y) for domain in (*task.sources, task.stream)]
        codes = np.split(np.unique(np.concatenate(labels), return_inverse=True)[1], np.cumsum(list(map(len, labels))))
        rows = [_plain(domain.X) for domain in (*task.sources, task.stream)]
        order = order_of(0, len(task.stream))
        sources = list(zip(rows[:-1], codes[: len(rows) - 1], strict=True))
        return cls(sources, task.together, _plain(task.warmup.X), rows[-1][order], codes[len(rows) - 1][order])

    def lengthened(self, labels: int, noise: float = 0.1) -> Stream:
        """The stream, then again in other orders until there are so many labels.

        Every value that comes again is moved by noise of this share of its feature's standard deviation: no row is met
        twice. The seed is fixed.
        """
        rng, deviation = np.random.default_rng(0), noise * self.X.std(axis=0)
        rows, codes, there = [self.X], [self.y], len(self.y)
        while there < labels:
            order = rng.permutation(len(self.y))
            rows.append(self.X[order] + deviation * rng.normal(size=self.X.shape))
            codes.append(self.y[order])
            there += len(order)
        return replace(self, X=np.concatenate(rows)[:labels], y=np.concatenate(codes)[:labels])

    def write(self, path: Path) -> None:
        """As arrays by name, for `one_side.py`."""
        named = {"X": self.X, "y": self.y, "together": self.together, "warmup": self.warmup}
        for i, (X, y) in enumerate(self.sources):
            named |= {f"rows of source {i}": X, f"labels of source {i}": y}
        np.savez(path, **named)


def _plain(X: Any) -> Any:
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


class Replay(NamedTuple):
    """The stream in one call: microseconds of a row, and the predictions."""

    microseconds: float
    predictions: Any


class Live(NamedTuple):
    """The stream row by row: seconds of each timed predict_one and learn_one (columns), and all predictions."""

    seconds: Any
    predictions: Any

    @property
    def microseconds(self) -> Any:
        """Of each timed step: predict_one and learn_one together."""
        return 1e6 * self.seconds.sum(axis=1)


class Side:
    """The library of one checkout (its src folder) in a process, which holds a stream and a model fitted to it.

    `threads=None` leaves the BLAS its default threads, whatever this process was told.
    """

    def __init__(self, source: Path, stream: Stream, threads: int | None = None) -> None:
        self.source, self.stream = Path(source).resolve(), stream
        # without NUMBA_CACHE_DIR each side keeps its compiled loops beside its own sources
        self.environment = {k: v for k, v in os.environ.items() if k not in (*THREADS, "NUMBA_CACHE_DIR")}
        self.environment["PYTHONPATH"] = str(self.source)
        if threads is not None:
            self.environment |= dict.fromkeys(THREADS, str(threads))

    def __enter__(self) -> Self:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stream.npz"
            self.stream.write(path)
            command = [sys.executable, str(ONE_SIDE), str(self.source), str(path)]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(command, env=self.environment, stdin=pipe, stdout=pipe, text=True)
            try:
                self._answer()
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for end in (self.process.stdin, self.process.stdout):
            if end is not None:
                end.close()

    def fit(self, method: str = "hedgerow", **options: Any) -> Self:
        """OnlineTransferClassifier(method, **options) on the stream's sources, and its compiled loops loaded."""
        self._ask("fit", method=method, options=options)
        return self

    def replay(self) -> Replay:
        """The whole stream in one call."""
        found = self._ask("replay")
        return Replay(1e6 * found["seconds"] / len(self.stream.y), np.array(found["predictions"]))

    def live(self, stretches: Sequence[tuple[int, int]] = ()) -> Live:
        """The whole stream row by row, or only these stretches of it, and the rows before each in one call."""
        found = self._ask("live", stretches=list(stretches) or [(0, len(self.stream.y))])
        return Live(np.array(found["seconds"]), np.array(found["predictions"]))

    def file(self) -> int:
        """Bytes of the model file after the last replay."""
        return int(self._ask("file"))

    def mistakes(self, predictions: Any) -> int:
        """Of these predictions of the whole stream."""
        return int((predictions != self.stream.y).sum())

    def _ask(self, name: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, arguments]) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.source} ended with {self.process.wait()}; see its error above")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"{self.source}: {reply['error']}")
        return reply["answer"]


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The src folder of a commit of this repository, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "tree.tar"
        command = ["git", "-C", str(ROOT), "archive", "--output", str(archive), commit, "src"]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
            said = "" if not done.returncode else done.stderr.strip()
        except FileNotFoundError:
            said = "there is no command git"
        if said:
            raise RuntimeError(
                f"commit {commit} cannot be taken from {ROOT} ({said}); a clone with the whole history is needed: "
                "git fetch --unshallow"
            )
        with tarfile.open(archive) as tree:
            tree.extractall(folder, filter="data")
        yield Path(folder) / "src"


def in_turns(sides: Sequence[Side], rounds: int) -> Iterator[tuple[int, Side]]:
    """Every side once a round, with its number; who is first changes from round to round."""
    for turn in range(rounds):
        yield from list(enumerate(sides))[:: -1 if turn % 2 else 1]
