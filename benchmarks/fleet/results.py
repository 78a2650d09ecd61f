"""benchmarks/fleet/RESULTS.md from what measure.py, warmup.py and kills.py recorded."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent


def rows(name):
    path = HERE / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def newest(found, *keys):
    """The last row of each kind."""
    return list({tuple(row[key] for key in keys): row for row in found}.values())


def table(head, lines):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(x) + " |" for x in lines), ""]


def tables_section(measured):
    """Fleets of tables, with light keys and without, beside one of numbers."""
    ways = {"numbers": "numbers", "light": "tables", "own": "tables, a model of its own for every key"}
    lines = [
        [
            row["method"], str(row["features"]), f"{row['keys']:,}", words, f"{row[way]['us']:.0f} us",
            f"{row[way]['bytes']:,.0f}", f"{row[way]['state']:,}",
        ]
        for row in newest(measured, "method")
        for way, words in ways.items()
    ]  # fmt: skip
    return [
        "## Tables", "",
        "`python benchmarks/fleet/tables.py`: numbers with gaps, categories and a date, 10 classes;",
        "`predict_then_learn` of mixed batches of 1,000 encoded rows after 20 labels a key. Beside it a fleet of",
        "numbers of the same width, and what tables were before their keys were light. Time is the process's own.", "",
        *table(["method", "numbers a row", "keys", "fleet", "an event", "bytes a key in memory", "state"], lines),
    ]  # fmt: skip


def main():
    measured = rows("measured.jsonl")
    text = ["# A fleet: measured", "", "Written by `python benchmarks/fleet/results.py`.", ""]
    text += ["## Bytes of a key after 20 labels", ""]
    text += [
        "`make bench-fleet`: 3 sources, 10 classes. *State* is what a key is on disk and what an engine moves; *in"
    ]
    text += ["memory* is what it takes while it is held. Goal: a state of at most 1/20 of a model file.", ""]
    found = newest([row for row in measured if row["part"] == "bytes"], "features", "method")
    text += table(
        ["features", "method", "model file", "state", "share", "in memory", "share"],
        [
            [
                str(r["features"]), r["method"], f"{r['file']:,}", f"{r['state']:,}", f"1/{1 / r['share']:.0f}",
                f"{r['held']:,.0f}", f"1/{1 / r['held_share']:.1f}",
            ]
            for r in found
        ],
    )  # fmt: skip
    text += ["## Mixed batches of 1,000 rows", ""]
    text += ["Against models of their own, called one by one in the same run. Goal: 10 x.", ""]
    found = newest([row for row in measured if row["part"] == "speed"], "features", "method")
    text += table(
        ["features", "method", "keys", "predict, then learn", "predict_then_learn", "own models", "ratio", "ratio"],
        [
            [
                str(r["features"]), r["method"], f"{r['keys']:,}", f"{r['fleet_us']:.0f} us", f"{r['once_us']:.0f} us",
                f"{r['own_us']:.0f} us ({r['models']})", f"{r['ratio']:.1f} x", f"{r['once_ratio']:.1f} x",
            ]
            for r in found
        ],
    )  # fmt: skip
    text += tables_section([row for row in measured if row["part"] == "tables"])
    for row in [row for row in measured if row["part"] == "million"][-1:]:
        text += [f"## {row['keys']:,} keys under {row['limit'] / 1e9:.0f} GB", ""]
        speeds = {name: row[f"{name}_us"] for name in ("first", "miss", "hit")}
        text += [
            f"20 features, hedgerow-linear, batches of 2,000: {speeds['first']:.0f} us a new key,",
            f"{speeds['miss']:.0f} us one that is read back, {speeds['hit']:.0f} us one that is held.",
            f"{row['rows_stored']:,} of",
            f"{row['rows_learned']:,} rows are in the file ({row['file'] / 1e6:,.0f} MB); the process held at most",
            f"{row['peak'] / 1e9:.2f} GB, of which {row['before'] / 1e9:.2f} before the first key.",
            "",
        ]
    lines = (HERE / "kills.txt").read_text().splitlines() if (HERE / "kills.txt").exists() else []
    text += ["## Kills", "", "`python -m fleet.kills` (in benchmarks/):", "", *(f"- {line}" for line in lines[-1:]), ""]
    found = newest(rows("warmup.jsonl"), "data", "task", "method")
    text += ["## What warm-up rows are worth", ""]
    text += ["`python benchmarks/fleet/warmup.py`: percent of mistakes over a stream, means of some orders.", ""]
    text += table(
        ["task", "method", "rows", "no warm-up", "warm-up rows of the key", "a model fitted with them"],
        [
            [r["task"], r["method"], str(r["rows"]), f"{r['none']:.2f}", f"{r['warm']:.2f}", f"{r['own']:.2f}"]
            for r in found
        ],
    )
    (HERE / "RESULTS.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
