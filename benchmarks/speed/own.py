"""Our own learner: this checkout against an earlier commit side by side, its small form, and its longest stop.

The earlier tree comes from the history of this repository, so a clone with the whole history is needed. Both sides get
the same streams, each in a process of its own, in turns (`benchmarks/sides.py`): with the BLAS threads that users have,
and with one. A replay is the best of some, a live step the median over stretches all along the stream; the earlier
commit is far slower with default threads, so not all of its stream is run live.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sides import HERE, Live, Replay, Side, Stream, checkout, in_turns

from speed import Row, row

THREADS = None  # the sides have processes of their own
BEFORE = "28a6f46530ab16c951a7f0f8c6dc842c1ac393cd"
EARLIER = BEFORE[:7]
ROUNDS = {None: 2, 1: 4}  # replays by BLAS threads; half as many live runs, whose medians are over many steps
STRETCHES, STRETCH = 4, 100  # live steps are timed in so many stretches of so many rows
LABELS, RUNS = 5000, 3  # of the longest stop
SMALL = {"size": "small"}  # the option of the classifier that makes the form for fleets


class Task(NamedTuple):
    """A data set, its target, what people call it, and whether its longest stop is measured: once a size."""

    data: str
    target: str
    title: str
    stop: bool


TASKS = (
    Task("digits", "shifted", "digits", True),
    Task("office-caltech", "amazon", "Amazon", True),
    Task("office-caltech", "caltech", "Caltech-256", False),
    Task("pie", "PIE5", "PIE5", True),
    Task("pie", "PIE1", "PIE1", False),
)


def measure() -> Iterator[Row]:
    """Task after task: the comparisons, the small form, the longest stop."""
    has_small = small_is_there()
    with checkout(BEFORE) as before:
        for task in TASKS:
            stream = Stream.of(task.data, task.target)
            title = f"{task.title} ({stream.X.shape[1]} features, {len(np.unique(stream.y))} classes)"
            for threads, rounds in ROUNDS.items():
                both = compare(stream, HERE, before, threads, rounds)
                yield times(title, both, threads)
            yield file(title, both)
            if has_small:
                yield small(title, stream, both.old)
            if task.stop:
                yield longest_stop(stream)


class Found(NamedTuple):
    """What one side did on a stream: all its replays and live runs, the bytes of its file, its mistakes."""

    replays: list[Replay]
    lives: list[Live]
    bytes: int
    mistakes: int

    @property
    def replay(self) -> float:
        """Seconds of a row, the best."""
        return 1e-6 * min(replay.microseconds for replay in self.replays)

    @property
    def step(self) -> float:
        """Median seconds of a live step, the best run."""
        return 1e-6 * min(float(np.median(live.microseconds)) for live in self.lives)


class Comparison(NamedTuple):
    """Both sides, and how many predictions of the new one differ between one call and row by row."""

    new: Found
    old: Found
    different: int


def compare(stream: Stream, ours: Path, before: Path, threads: int | None, rounds: int) -> Comparison:
    """Replays in turns, then live steps in turns, then this checkout row by row over the whole stream."""
    timed = stretches(len(stream.y))
    with Side(ours, stream, threads) as new, Side(before, stream, threads) as old:
        sides = [side.fit() for side in (new, old)]
        replays: tuple[list[Replay], ...] = ([], [])
        lives: tuple[list[Live], ...] = ([], [])
        for i, side in in_turns(sides, rounds):
            replays[i].append(side.replay())
        for i, side in in_turns(sides, rounds // 2):
            lives[i].append(side.live(timed))
        found = [
            Found(replays[i], lives[i], side.file(), side.mistakes(replays[i][0].predictions))
            for i, side in enumerate(sides)
        ]
        different = (new.live().predictions != found[0].replays[0].predictions).sum()
    return Comparison(found[0], found[1], int(different))


def stretches(rows: int) -> list[tuple[int, int]]:
    """From the first row to the last, evenly; all rows where there are no more than the stretches have.

    >>> stretches(1300), stretches(250)
    ([(0, 100), (400, 500), (800, 900), (1200, 1300)], [(0, 250)])
    """
    if rows <= STRETCHES * STRETCH:
        return [(0, rows)]
    return [(int(first), int(first) + STRETCH) for first in np.linspace(0, rows - STRETCH, STRETCHES)]


def times(title: str, both: Comparison, threads: int | None) -> Row:
    """Replay and live step of both; the predictions of this checkout in one call and row by row."""
    new, old, different = both
    return row(
        f"our learner against {EARLIER}, {title}, {'default threads' if threads is None else f'{threads} BLAS thread'}",
        "replay <= 3/4, live step <= 3/4, predictions of both forms identical",
        [("replay", "<=", 0.75), ("live", "<=", 0.75), ("different", "==", 0)],
        {
            "replay, a row": new.replay, f"of {EARLIER}": old.replay,
            "live step": new.step, f"live step of {EARLIER}": old.step,
        },
        unit="x in the replay",
        replay=new.replay / old.replay,
        live=new.step / old.step,
        different=different,
    )  # fmt: skip


def file(title: str, both: Comparison) -> Row:
    """Bytes of the model files after the stream, and the mistakes on it."""
    new, old, _ = both
    return row(
        f"our learner's model file against {EARLIER}'s, {title}",
        "<= 1/2 of its bytes",
        [("file", "<=", 0.5)],
        unit="of its bytes",
        shown=["megabytes", "megabytes_before", "mistakes", "mistakes_before", "rows"],
        file=new.bytes / old.bytes,
        megabytes=new.bytes / 1e6,
        megabytes_before=old.bytes / 1e6,
        mistakes=new.mistakes,
        mistakes_before=old.mistakes,
        rows=len(new.replays[0].predictions),
    )


def small_is_there() -> bool:
    """Whether this checkout has the small form; if not, that is said."""
    from hedgerow import OnlineTransferClassifier

    lacking = SMALL.keys() - inspect.signature(OnlineTransferClassifier).parameters.keys()
    for name in lacking:
        print(f"  the small form is not measured: OnlineTransferClassifier has no parameter `{name}`", flush=True)
    return not lacking


def small(title: str, stream: Stream, old: Found) -> Row:
    """The form for fleets: its file against the earlier commit's, and what it costs in mistakes; one BLAS thread."""
    with Side(HERE, stream, 1) as side:
        side.fit(**SMALL)
        replay, live = side.replay(), side.live(stretches(len(stream.y)))
        found = Found([replay], [live], side.file(), side.mistakes(replay.predictions))
    return row(
        f"our learner's small form, model file against {EARLIER}'s, {title}",
        "<= 1/20 of its bytes",
        [("file", "<=", 0.05)],
        {"replay, a row": found.replay, "live step": found.step},
        unit="of its bytes",
        shown=["megabytes", "mistakes", "mistakes_before", "rows"],
        file=found.bytes / old.bytes,
        megabytes=found.bytes / 1e6,
        mistakes=found.mistakes,
        mistakes_before=old.mistakes,
        rows=len(replay.predictions),
    )


def longest_stop(stream: Stream) -> Row:
    """Each predict_one and learn_one over a lengthened stream, default threads, the same run some times."""
    with Side(HERE, stream.lengthened(LABELS)) as side:
        side.fit()
        runs = np.stack([side.live().seconds for _ in range(RUNS)])
    own, plain = stop(runs.min(axis=0)), stop(runs.reshape(-1, 2))
    return row(
        f"longest stop of predict_one or learn_one over {LABELS:,} labels, m = {stream.X.shape[1]}",
        "<= 3 x the median step",
        [("stop", "<=", 3.0)],
        {"longest stop": own.seconds, "median step": own.step, f"longest in {RUNS} runs": plain.seconds},
        shown=["longest_of_all_runs", "at_label"],
        stop=own.seconds / own.step,
        longest_of_all_runs=plain.seconds / plain.step,
        at_label=own.label,
        in_call=own.call,
    )


class Stop(NamedTuple):
    """The longest call, the median step, and where the longest was."""

    seconds: float
    step: float
    label: int
    call: str


def stop(seconds: Any) -> Stop:
    """The longest of these calls (labels x predict_one, learn_one).

    Other processes of the machine stop ours too, each time elsewhere; the learner's own stops come at the same labels
    in every run, so of several runs each call's shortest time is what it needs by itself.

    >>> runs = np.array([[[1.0, 2.0], [9.0, 2.0], [1.0, 5.0]], [[1.0, 8.0], [1.0, 2.0], [1.0, 6.0]]])
    >>> stop(runs.min(axis=0))
    Stop(seconds=5.0, step=3.0, label=3, call='learn_one')
    """
    label, call = np.unravel_index(int(seconds.argmax()), seconds.shape)
    step = float(np.median(seconds.sum(axis=1)))
    return Stop(float(seconds.max()), step, int(label) + 1, ("predict_one", "learn_one")[call])
