"""Fold the rows of the speed benchmark into a Markdown table and plots.

python benchmarks/table.py [OUT] [--results benchmarks/RESULTS.md] [--pictures docs]
"""

from __future__ import annotations

import argparse
import json
import operator
from pathlib import Path
from typing import Any

ROWS = "rows.jsonl"
COMPARE = {">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt, "==": operator.eq}
Row = dict[str, Any]


def read(out: Path) -> list[Row]:
    """All rows, oldest first; a line that an interrupt cut short is left out."""
    path = out / ROWS
    rows = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def latest(rows: list[Row]) -> list[Row]:
    """The newest row of each thing measured, sections in order of name."""
    newest = {(row["section"], row["what"]): row for row in rows if "what" in row}
    return sorted(newest.values(), key=lambda row: str(row["section"]))


def kept(row: Row) -> bool:
    """Whether every limit holds."""
    return all(COMPARE[sign](row[name], bound) for name, sign, bound in row["limits"])


def measured(row: Row) -> str:
    """The number that the first limit is about, then the others, then those that the row wants to be shown."""
    names = [name for name, _, _ in row["limits"]] or [name for name in ("ratio",) if name in row]
    names += row.get("shown", [])
    shown = [f"{number(row[name])} {row['unit']}".strip() for name in names[:1]]
    return ", ".join(shown + [f"{name.replace('_', ' ')} {number(row[name])}" for name in names[1:]])


def number(value: Any) -> str:
    """Three digits are enough.

    >>> number(312.456), number(True), number(0.01234)
    ('312', 'yes', '0.0123')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(0.00012), duration(3.2)
    ('120 us', '3.2 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def line(row: Row) -> str:
    """A row for the terminal."""
    mark = ("ok" if kept(row) else "SHORT") if row["limits"] else "-"
    return f"{mark:6}{row['what']}: {measured(row)} (to reach: {row['to_reach'] or 'reported'})"


def markdown(rows: list[Row]) -> str:
    """what | measured | to reach | ok | medians, and the machines."""
    lines = ["| what | measured | to reach | ok | medians |", "|---|---|---|---|---|"]
    for row in rows:
        ok = ("yes" if kept(row) else "**no**") if row["limits"] else ""
        times = ", ".join(f"{name} {duration(value)}" for name, value in row["seconds"].items())
        lines.append(f"| {row['what']} | {measured(row)} | {row['to_reach']} | {ok} | {times} |")
    machines = {json.dumps({k: v for k, v in row["machine"].items() if k != "load"}, sort_keys=True) for row in rows}
    lines += ["", *(f"Measured on {_machine(json.loads(text))}." for text in sorted(machines))]
    return "\n".join(lines) + "\n"


def model(rows: list[Row]) -> str:
    """Measured against the machine's two limits: what must be computed and moved, and the least time for it."""
    roofs = [row["roof"] for row in rows if "roof" in row]
    points = [row for row in rows if "roofline" in row]
    if not roofs or not points:
        return ""
    roof = roofs[-1]
    rate, cached, memory = (f"{roof[name] / 1e9:.1f}" for name in ("flops", "cached", "bytes"))
    lines = [
        "## Measured against the model",
        "",
        f"One thread: {rate} Gflop/s in a matrix product, {cached} GB/s from the cache, {memory} GB/s in a large copy.",
        "",
        "| what | Mflop | MB moved | at least | measured | share |",
        "|---|---|---|---|---|---|",
    ]
    for row in points:
        p = row["roofline"]
        slope = roof["cached" if p["bytes"] <= roof["cache"] else "bytes"]
        least = max(p["flops"] / roof["flops"], p["bytes"] / slope)
        cells = [p.get("name", row["what"]), number(p["flops"] / 1e6), number(p["bytes"] / 1e6), duration(least)]
        cells += [duration(p["seconds"]), f"{least / p['seconds']:.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _machine(facts: Row) -> str:
    libraries = ", ".join(f"{name} {facts[name]}" for name in ("numpy", "scipy", "numba", "scikit-learn"))
    return f"{facts['cpu']}, {facts['cores']} cores, {'; '.join(facts['blas'])}, Python {facts['python']}, {libraries}"


def fold(out: Path, results: Path | None = None, pictures: Path | None = None) -> None:
    """OUT/table.md (or `results`) and the plots (in OUT or `pictures`)."""
    import plots

    rows = latest(read(out))
    if not rows:
        return
    target = results or out / "table.md"
    title = "# Speed: what `make bench` measured\n\n" if results else ""
    target.write_text("\n".join(part for part in (title + markdown(rows), model(rows)) if part))
    drawn = plots.draw(rows, pictures or out)
    reached = sum(kept(row) for row in rows if row["limits"])
    print(f"{reached} of {sum(bool(row['limits']) for row in rows)} reached; table in {target}")
    print(f"plots: {', '.join(str(path) for path in drawn)}")


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", default=Path("out/bench"))
    parser.add_argument("--results", type=Path, help="write the table here")
    parser.add_argument("--pictures", type=Path, help="write the plots into this directory")
    given = parser.parse_args()
    fold(given.out, given.results, given.pictures)


if __name__ == "__main__":
    main()
