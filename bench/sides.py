"""This checkout beside another commit: the same stream, each side in a process of its own, asked in turns.

    python -m bench against other=72c42ab methods=oddm,hedgerow tasks=digits/shifted,office-caltech/amazon threads=1

Both processes stay, so that a model is fitted once and a slow minute of the machine slows both sides. A side uses only
what old and new checkouts have in common: `Domain` and the public methods of `OnlineTransferClassifier`.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "src"
THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
WARM = 60  # rows that a copy of the model sees before anything is timed, so that the compiled loops are loaded


@dataclass(frozen=True)
class Stream:
    """What both sides are given: labelled sources, unlabelled rows of the target, then its stream; labels are codes."""

    sources: Sequence[tuple[Any, Any]]
    warmup: Any
    X: Any
    y: Any

    @classmethod
    def of(cls, task: str, rows: int | None = None) -> Stream:
        """The first split and order of "data/target"; with `rows`, so many of each source and of the stream.

        "made/20" is a made-up stream of 20 columns.
        """
        if task.startswith("made/"):
            return cls.made(
                int(task.removeprefix("made/")), rows=900 if rows is None else 200 + rows
            )
        from bench.tasks import order_of, prepare

        prepared = prepare(task, 0)
        labels = [np.asarray(domain.y) for domain in (*prepared.sources, prepared.stream)]
        codes = np.split(
            np.unique(np.concatenate(labels), return_inverse=True)[1],
            np.cumsum([len(y) for y in labels]),
        )
        plain = [_plain(domain.X) for domain in (*prepared.sources, prepared.stream)]
        order = order_of(0, len(prepared.stream))[:rows]
        sources = [
            (X[:rows], y[:rows]) for X, y in zip(plain[:-1], codes[: len(plain) - 1], strict=True)
        ]
        return cls(
            sources, _plain(prepared.warmup.X), plain[-1][order], codes[len(plain) - 1][order]
        )

    @classmethod
    def made(cls, columns: int, classes: int = 3, rows: int = 900) -> Stream:
        """A made-up stream of few columns and three sources: classes about centres, each domain about its own mean."""
        rng = np.random.default_rng(0)
        centres = 1.2 * rng.normal(size=(classes, columns))

        def domain(n: int) -> tuple[Any, Any]:
            y = rng.integers(classes, size=n)
            return centres[y] + rng.normal(size=(n, columns)) + 0.3 * rng.normal(size=columns), y

        sources = [domain(600) for _ in range(3)]
        X, y = domain(rows)
        return cls(sources, X[:200], X[200:], y[200:])

    def lengthened(self, labels: int, noise: float = 0.1) -> Stream:
        """The stream, then again in other orders until there are so many labels.

        Every value that comes again is moved by noise of this share of its feature's standard deviation: no row is met
        twice. The seed is fixed.
        """
        rng = np.random.default_rng(0)
        deviation = noise * self.X.std(axis=0)
        rows = [self.X]
        codes = [self.y]
        while sum(map(len, codes)) < labels:
            order = rng.permutation(len(self.y))
            rows.append(self.X[order] + deviation * rng.normal(size=self.X.shape))
            codes.append(self.y[order])
        return replace(self, X=np.concatenate(rows)[:labels], y=np.concatenate(codes)[:labels])


def _plain(X: Any) -> Any:
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


class Timed(NamedTuple):
    """Microseconds (of a row; live: of each predict_one and learn_one) and the predictions of the whole stream.

    core: microseconds on a core of a live row, on average.
    """

    us: Any
    predictions: Any
    core: float = 0.0


class Side:
    """The library of one checkout (its src folder) in a process, which holds a stream and a model fitted to it.

    `threads=None` leaves the BLAS its default threads, whatever this process was told.
    """

    def __init__(self, source: Path, stream: Stream, threads: int | None = None) -> None:
        self.source = Path(source).resolve()
        self.stream = stream
        # without NUMBA_CACHE_DIR each side keeps its compiled loops beside its own sources
        self.environment = {
            k: v for k, v in os.environ.items() if k not in (*THREADS, "NUMBA_CACHE_DIR")
        }
        self.environment["PYTHONPATH"] = os.pathsep.join([str(self.source), str(ROOT)])
        if threads is not None:
            self.environment |= dict.fromkeys(THREADS, str(threads))

    def __enter__(self) -> Self:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stream.npz"
            stream = self.stream
            named = {"X": stream.X, "y": stream.y, "warmup": stream.warmup}
            for i, (X, y) in enumerate(stream.sources):
                named |= {f"rows {i}": X, f"labels {i}": y}
            np.savez(path, **named)
            command = [sys.executable, "-m", "bench.sides", str(self.source), str(path)]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                command, env=self.environment, stdin=pipe, stdout=pipe, text=True, cwd=self.source
            )
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
        """A classifier of this method and options on the stream's sources, and its compiled loops loaded."""
        self._ask("fit", method=method, options=options)
        return self

    def replay(self) -> Timed:
        """The whole stream in one call."""
        reply = self._ask("replay")
        return Timed(1e6 * reply["seconds"] / len(self.stream.y), np.array(reply["predictions"]))

    def live(self) -> Timed:
        """The whole stream row by row: labels x (predict_one, learn_one)."""
        reply = self._ask("live")
        us = 1e6 * np.array(reply["seconds"])
        return Timed(us, np.array(reply["predictions"]), 1e6 * reply["core"] / len(us))

    def file(self) -> int:
        """Bytes of the model after the last replay."""
        return int(self._ask("file"))

    def _ask(self, name: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, arguments]) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the process of {self.source} ended with {self.process.wait()}; see its error above"
            )
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"{self.source}: {reply['error']}")
        return reply["answer"]


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The src folder of a commit of this repository, in a temporary folder; a folder is taken as it is."""
    if Path(commit).is_dir():
        yield Path(commit)
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "tree.tar"
        command = ["git", "-C", str(ROOT), "archive", "--output", str(archive), commit, "src"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"commit {commit} cannot be taken from {ROOT} ({done.stderr.strip()}); a clone with the whole history "
                "is needed: git fetch --unshallow"
            )
        subprocess.run(["tar", "-xf", str(archive), "-C", folder], check=True)
        yield Path(folder) / "src"


def in_turns(sides: Sequence[Any], rounds: int) -> Iterator[tuple[int, Any]]:
    """Every side once a round, with its number; who is first changes from round to round.

    >>> [i for i, _ in in_turns("ab", 3)]
    [0, 1, 1, 0, 0, 1]
    """
    for turn in range(rounds):
        yield from list(enumerate(sides))[:: -1 if turn % 2 else 1]


class OneSide:
    """In the process of a side: a stream, a model fitted to its sources, and the model as the last replay left it."""

    def __init__(self, path: str) -> None:
        from hedgerow import Domain

        with np.load(path) as file:
            arrays = dict(file)
        self.X = arrays["X"]
        self.y = arrays["y"]
        self.warmup = Domain("target", arrays["warmup"])
        count = sum(name.startswith("rows ") for name in arrays)
        self.sources = [
            Domain(f"source {i}", arrays[f"rows {i}"], arrays[f"labels {i}"]) for i in range(count)
        ]
        self.fitted: Any = None
        self.replayed: Any = None

    def fit(self, method: str, options: dict[str, Any]) -> None:
        """A model for all that follows; copies of it run over the stream's first rows."""
        from hedgerow import OnlineTransferClassifier
        from hedgerow.estimator import arguments_of

        clf = OnlineTransferClassifier(**arguments_of(method, options))
        self.fitted = clf.fit_domains(self.sources, self.warmup)
        copy.deepcopy(self.fitted).predict_then_learn(self.X[:WARM], self.y[:WARM])
        self.live(WARM)

    def replay(self) -> dict[str, Any]:
        """The stream in one call: seconds, and the predictions. Of one thread, seconds on a core: it lasts longer than
        the system leaves a core to a process while others want it."""
        clf = copy.deepcopy(self.fitted)
        wall = time.perf_counter()
        core = time.process_time()
        predictions = clf.predict_then_learn(self.X, self.y)
        seconds = min(time.perf_counter() - wall, time.process_time() - core)
        self.replayed = clf
        return {"seconds": seconds, "predictions": predictions.tolist()}

    def live(self, rows: int | None = None) -> dict[str, Any]:
        """Seconds of each predict_one and learn_one. Garbage is collected when Python decides, as for every user."""
        clf = copy.deepcopy(self.fitted)
        clock = time.perf_counter
        seconds = []
        predictions = []
        gc.collect()
        core = time.process_time()
        for x, label in zip(list(self.X[:rows]), self.y[:rows].tolist(), strict=True):
            began = clock()
            predictions.append(clf.predict_one(x))
            predicted = clock()
            clf.learn_one(x, label)
            seconds.append((predicted - began, clock() - predicted))
        core = time.process_time() - core
        return {"seconds": seconds, "core": core, "predictions": np.array(predictions).tolist()}

    def file(self) -> int:
        """Bytes of the model after the replay."""
        return len(self.replayed.to_bytes())


def main() -> None:
    """Answer until the input ends; whatever else is printed goes to the standard error."""
    source, stream = sys.argv[1:]
    replies = sys.stdout
    sys.stdout = sys.stderr
    import hedgerow

    if Path(source) not in Path(hedgerow.__file__).parents:
        raise SystemExit(f"the library was to come from {source}, it came from {hedgerow.__file__}")
    side = OneSide(stream)
    print(json.dumps({"answer": "ready"}), file=replies, flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"answer": getattr(side, name)(**arguments)}
        except Exception as error:  # told to whoever asked, who stops
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=replies, flush=True)


if __name__ == "__main__":
    main()
