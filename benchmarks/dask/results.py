"""What was measured on Dask, as a page: RESULTS.md from the files in benchmarks/dask/measured.

make bench-dask                      measure, then write the page
python benchmarks/dask/results.py    write it from what is there
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MEASURED = HERE / "measured"


def page() -> str:
    parts = ["# On Dask: measured\n", "Written by `python benchmarks/dask/results.py` from `benchmarks/dask/measured`."]
    for title, name, words in (
        ("## Two workers against one", "speed.json", _speed),
        ("## Workers killed in mid-run", "kills.json", _kills),
        ("## Statistics of a folder larger than memory", "statistics.json", _statistics),
        ("## From partitions and from memory", "predictions.json", _predictions),
    ):
        path = MEASURED / name
        if path.exists():
            parts += ["", title, "", *words(json.loads(path.read_text(encoding="utf-8")))]
    return "\n".join(parts) + "\n"


def _differ(found: dict[str, Any]) -> str:
    fields = found["fields_that_differ"]
    if not fields:
        return "none"
    named = ", ".join(f"{name} ({count} rows)" for name, count in fields.items())
    return f"{named}, by {found['largest_relative_difference']:.0e} at most"


def _speed(found: dict[str, Any]) -> Iterator[str]:
    groups = found["groups"]
    one, two = (sum(group[f"seconds_{workers}"] for group in groups) for workers in (1, 2))
    yield f"`python benchmarks/dask/experiments.py speed --trials {found['trials']}`: the paper's table, three tasks at"
    yield f"a time on clusters that stay up, {found['cores']} cores. Goal: 1.7 times as fast, rows of the local engine."
    yield ""
    yield "| tasks | one worker, s | two, s | times as fast | other processes (load) | fields unlike the local rows |"
    yield "|---|---|---|---|---|---|"
    for group in groups:
        one_s, two_s, names = group["seconds_1"], group["seconds_2"], group["tasks"].replace(",", ", ")
        differ = f"{_differ(group['compared_1'])}; {_differ(group['compared_2'])}"
        yield f"| {names} | {one_s:.0f} | {two_s:.0f} | {one_s / two_s:.2f} | {group['load']:.1f} | {differ} |"
    yield f"| all | {one:.0f} | {two:.0f} | {one / two:.2f} | | |"
    rows = sum(group["compared_2"]["rows"] for group in groups)
    lines = sum(group["compared_2"]["lines"] for group in groups)
    yield ""
    yield f"{rows} rows in {lines} lines of the results files on two workers."


def _kills(found: dict[str, Any]) -> Iterator[str]:
    yield "`python benchmarks/dask/experiments.py kills`: a worker of two is killed with -9 again and again while a"
    yield "part of the table is run. Goal: ten kills, the same rows, none twice."
    yield ""
    whose = "those of the local engine" if found["same_keys"] else "NOT those of the local engine"
    yield f"{found['kills']} kills: {found['rows']} rows in {found['lines']} lines, {whose}; fields that differ:"
    yield f"{_differ(found)}. {found['seconds']:.0f} s; undisturbed in processes {found['seconds_local']:.0f} s."


def _statistics(found: dict[str, Any]) -> Iterator[str]:
    (before, after), took, size = found["read"], found["statistics"], found["bytes"] / 1e9
    yield f"`python benchmarks/dask/statistics.py --gigabytes {size:.0f}`: {found['rows']:,} rows of"
    yield f"{found['features']} doubles and a label in {found['files']} Parquet files, {size:.1f} GB, on"
    yield f"{found['workers']} workers; moments, class sums and scatter in one pass, between two plain reads of the"
    yield "same bytes through the same library on the same workers. Processor seconds are those of the workers."
    yield ""
    yield "| | measured | goal |"
    yield "|---|---|---|"
    yield f"| resident, all processes together, at most | {found['resident_all'] / 1e9:.2f} GB | < 2 GB |"
    yield f"| the largest process | {found['resident_largest_process'] / 1e9:.2f} GB | |"
    worst = found["largest_relative_difference_on_a_part"]
    yield f"| largest relative difference to memory, on one file | {worst:.1e} | 1e-10 |"
    seconds = ", ".join(f"{each['seconds']:.0f}" for each in (before, took, after))
    yield f"| seconds: read, statistics, read | {seconds} | |"
    yield f"| statistics over a plain read, seconds | {found['ratio']['seconds']:.2f} | <= 2 |"
    yield f"| the same, processor seconds | {found['ratio']['processor']:.2f} | |"
    yield f"| other processes on the machine (load) | {found['load']:.1f} | |"


def _predictions(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "`python benchmarks/dask/predictions.py`: real sources as Parquet in partitions, and in memory."
    yield "`hedgerow-linear`: rows of the stream predicted otherwise (goal: none), before any label and while learning."
    yield "`hedgerow` draws landmarks and kept rows as a sample: mistakes from partitions and from memory, by seed."
    yield ""
    yield "| task | rows | partitions | passes | before | while learning | score, by | `hedgerow`: partitions, memory |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in found:
        seeds = "; ".join(f"{a}, {b}" for a, b in row["default_mistakes"])
        yield (
            f"| {row['task']} | {row['rows']} | {row['partitions']} | {row['passes']} | "
            f"{row['other_predictions_before']} | {row['other_predictions_along']} | "
            f"{row['largest_score_difference']:.0e} | {seeds} |"
        )


if __name__ == "__main__":
    (HERE / "RESULTS.md").write_text(page(), encoding="utf-8")
