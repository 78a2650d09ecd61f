"""What was measured of streams of keys on Spark, as a page: RESULTS.md from the files in benchmarks/spark/measured.

make bench-spark                      measure, then write the page
python benchmarks/spark/results.py    write it from what is there
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent


def page():
    parts = [
        "# Streams of keys on Spark: measured\n",
        "Written by `python benchmarks/spark/results.py` from `benchmarks/spark/measured`; what it means is in",
        "[docs/spark.md](../../docs/spark.md).",
    ]
    for title, name, words in (
        ("## kill -9", "kills.json", _kills),
        ("## Throughput, and where the time goes", "speed.json", _speed),
    ):
        path = HERE / "measured" / name
        if path.exists():
            parts += ["", title, "", *words(json.loads(path.read_text(encoding="utf-8")))]
    return "\n".join(parts) + "\n"


def _kills(found):
    size = f"{found['events']:,} events of {found['keys']:,} keys in {found['batches']} batches"
    yield f"`python -m spark.kills`: {size} on `{found['master']}`;"
    yield "driver and Python workers killed in mid-batch, in turn. Labels come late, twice, against what was"
    yield "learned, or for events that never were."
    yield ""
    yield "| | found | goal |"
    yield "|---|---|---|"
    yield f"| drivers killed, workers killed | {found['drivers killed']}, {found['workers killed']} | 20 in all |"
    yield f"| labels learned | {found['labels learned']:,} | |"
    yield f"| lost, doubled | {found['lost']}, {found['doubled']} | 0, 0 |"
    yield f"| states with the bytes of a plain loop | {found['states equal']:,} of {found['states']:,} | all |"
    yield f"| of these, against rows learned one by one | {found['of these one by one']} | all |"
    yield f"| predictions, ids among them | {found['predictions']:,}, {found['predicted ids']:,} | one an event |"
    for name, count in found["statuses"].items():
        yield f"| labels `{name}`, as many as the plain loop has | {count:,} | |"
    yield f"| seconds | {found['seconds']:,} | |"


def _speed(found):
    yield f"`python -m spark.speed`: {found['events']:,} events (a row and a label each) of {found['keys']:,} keys,"
    yield f"`hedgerow-linear`, 4 features, {found['batches']} batches, the first not counted; {found['cores']} cores,"
    yield f"load {found['load']:.0f} at the end, most of it of others. Events a second are by the wall; processor time"
    yield "of a job on Spark is that of all its processes, with their start."
    yield ""
    yield "| | events a second | ms of processor an event | seconds a batch | longest |"
    yield "|---|---|---|---|---|"
    for row in found["rows"]:
        rest = f"{row.get('seconds a batch', '')} | {row.get('longest batch', '')}"
        yield f"| {row['what']} | {row['events a second']:,} | {row['ms of processor an event']} | {rest} |"
    total = sum(found["processor seconds"].values())
    yield ""
    yield "| `local[2]`, processor time | seconds | share |"
    yield "|---|---|---|"
    for name, seconds in found["processor seconds"].items():
        yield f"| {name} | {seconds} | {seconds / total:.0%} |"
    yield ""
    yield from (f"- {name}: {value:,}" for name, value in found["moved"].items())


if __name__ == "__main__":
    (HERE / "RESULTS.md").write_text(page(), encoding="utf-8")
