"""What was measured of models that run, as a page: RESULTS.md from the files in benchmarks/live/measured.

make bench-live && make torture      measure, then write the page
python benchmarks/live/results.py    write it from what is there
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
MEASURED = HERE / "measured"


def page():
    parts = [
        "# Models that run: measured\n",
        "Written by `python benchmarks/live/results.py` from `benchmarks/live/measured`.",
    ]
    for title, name, words in (
        ("## `hedgerow run` beside the library", "run_speed.json", _speed),
        ("## The service under load", "load.json", _load),
        ("## Torture", "torture.txt", _torture),
    ):
        path = MEASURED / name
        if path.exists():
            parts += ["", title, "", *words(path.read_text(encoding="utf-8"))]
    return "\n".join(parts) + "\n"


def _speed(text):
    found = json.loads(text)
    kinds = [name for name in found[0] if name not in ("method", "rows", "library rows/s", "load", "cores")]
    yield "`python benchmarks/live/run_speed.py`: rows a second of a run (reading, predicting, learning, writing)"
    yield "divided by those of `predict_then_learn` on the same rows in memory, in the same process; 20 features. Goal:"
    yield ".5, without a journal."
    yield ""
    yield "A run reads in a thread of its own, so it needs a second free core; `load` is how many threads wanted a core"
    yield "when the turn of the method came."
    yield ""
    yield "| method | rows | load / cores | library, rows/s | " + " | ".join(kinds) + " |"
    yield "|---|---|---|---|" + "---|" * len(kinds)
    for row in found:
        shares = " | ".join(f"{row[kind]:.2f}" for kind in kinds)
        busy = f"{row['load']} / {row['cores']}" if "load" in row else "not noted"
        yield f"| {row['method']} | {row['rows']:,} | {busy} | {row['library rows/s']:,.0f} | {shares} |"
    short = [f"{row['method']} {row['csv']:.2f}" for row in found if row["csv"] < 0.5]
    yield ""
    yield f"CSV without a journal: {'short of the goal: ' + ', '.join(short) if short else 'all reach the goal'}."


def _load(text):
    found = json.loads(text)
    yield "`python benchmarks/live/load.py`: default method, Office+Caltech (800 features), 64 clients on loopback, one"
    yield "server process, journal on."
    yield ""
    yield "| | a second | p50 ms | p99 ms | longest ms |"
    yield "|---|---|---|---|---|"
    for name in ("echo", "one by one", "batches", "overload"):
        part = found[name]
        yield f"| {name} | {part['a second']:,} | {part['p50']} | {part['p99']} | {part['max']} |"
    yield ""
    one, many = found["one by one, share of the echo"], found["batches, share of the library"]
    yield f"- one by one (predict, then label), share of a bare FastAPI echo of the same payload: {one} (goal .4)"
    yield f"- batches of 256, share of the library's `predict_then_learn`: {many} (goal .5)"
    over = found["overload"]
    yield f"- ten times the clients: {over['requests']:,} requests, answered by {over['statuses']}, {over['lost']} lost"


def _torture(text):
    yield "`make torture`, line by line:"
    yield ""
    yield from (f"- {line}" for line in text.splitlines() if line.strip() and not line.startswith("going on"))


if __name__ == "__main__":
    (HERE / "RESULTS.md").write_text(page(), encoding="utf-8")
