"""This checkout against another one, side by side: time of a row in blocks and live, and the mistakes of both.

    python benchmarks/against.py OTHER/src [--methods oddm,hedgerow] [--rounds 3] [--threads 1]

Both sides run the same stream (Office+Caltech, target Amazon; HEDGEROW_DATA) in processes of their own, in turns.
Without `--threads` the BLAS has its default threads. A ratio below one: this checkout is faster.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sides import HERE, Side, Stream, in_turns


def compare(sides: tuple[Side, Side], method: str, rounds: int) -> None:
    """The best of the rounds of each side, and whether they make the same mistakes."""
    found: dict[str, tuple[list[float], list[float]]] = {
        what: ([], []) for what in ("replay", "live median", "live mean")
    }
    mistakes = [0, 0]
    for side in sides:
        side.fit(method)
    for i, side in in_turns(sides, rounds):
        replay, live = side.replay(), side.live()
        found["replay"][i].append(replay.microseconds)
        found["live median"][i].append(float(np.median(live.microseconds)))
        found["live mean"][i].append(float(live.microseconds.mean()))
        mistakes[i] = side.mistakes(replay.predictions)
    for what, times in found.items():
        ours, theirs = map(min, times)
        print(f"{method}, {what}: {ours:.1f} against {theirs:.1f} us a row, ratio {ours / theirs:.2f}", flush=True)
    same = "the same on both sides" if mistakes[0] == mistakes[1] else f"NOT the same on the other side: {mistakes[1]}"
    print(f"{method}: {mistakes[0]} mistakes, {same}", flush=True)


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the src folder of another checkout")
    parser.add_argument("--methods", default="homotlms,oddm,hedgerow,hedgerow-linear")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    given = parser.parse_args()
    stream = Stream.of("office-caltech", "amazon")
    with Side(HERE, stream, given.threads) as ours, Side(given.other, stream, given.threads) as theirs:
        for method in given.methods.split(","):
            compare((ours, theirs), method, given.rounds)


if __name__ == "__main__":
    main()
