"""The simulation, checked against what was measured, and run for what was not.

    python benchmarks/scale/simulate.py --check     measured and simulated workers side by side; fails beyond 20 %
    python benchmarks/scale/simulate.py --all       every scenario, to scale/measured/simulated.jsonl
    python benchmarks/scale/simulate.py --scenario skew --workers 200 --load 500000 [--set brokers=8 --set mtbf=3600]

`--set` changes an assumption: the fields of `Cluster` in cluster.py (batch, linger, memory, cores, machine_gbit,
machine_disk, brokers, broker_gbit, broker_cores, checkpoint, store_gbit, spread, slow, slowness, mtbf, labels, seed).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from scale.local import check
from scale.model import MEASURED, Row, fit, read
from scale.scenarios import BY_NAME, everything, simulated

SIMULATED = MEASURED.with_name("simulated.jsonl")
WITHIN = 0.2
CHECKED = ("rows_a_second", "latency_mean")  # quantiles of some twenty batches are printed beside


def checked(rows: Sequence[Row]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All comparisons, and those that are further apart than WITHIN."""
    found = check(rows)
    return found, [one for one in found if one["what"] in CHECKED and abs(one["ratio"] - 1) > WITHIN]


def print_check(rows: Sequence[Row]) -> int:
    found, bad = checked(rows)
    print(f"{'setting':24s} {'workers':>7s} {'what':14s} {'measured':>10s} {'simulated':>10s} {'ratio':>6s}")
    for one in found:
        mark = " <- beyond 20 %" if one in bad else ""
        numbers = f"{one['measured']:10.4g} {one['simulated']:10.4g} {one['ratio']:6.2f}{mark}"
        print(f"{one['setting']:24s} {one['workers']:7d} {one['what']:14s} {numbers}")
    print(
        f"{len(bad)} of {sum(one['what'] in CHECKED for one in found)} comparisons ({', '.join(CHECKED)}) beyond 20 %"
    )
    return 1 if bad else 0


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def command() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--scenario", choices=list(BY_NAME), default="fits")
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--load", type=float, default=0.0, help="rows a second; 0: seven tenths of what it can do")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--measured", type=Path, default=MEASURED)
    given = parser.parse_args()
    rows = read(given.measured)
    if given.check:
        return print_check(rows)
    if given.all:
        lines = [json.dumps(row, default=plain) for row in everything(rows)]
        SIMULATED.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return 0
    options = {name: float(value) for name, value in (pair.split("=", 1) for pair in given.set)}
    whole = {
        name: int(options[name]) for name in ("batch", "cores", "brokers", "broker_cores", "seed") if name in options
    }
    cluster = BY_NAME[given.scenario].cluster(rows, fit(rows), given.workers, **{**options, **whole})
    most, why = cluster.capacity
    said = simulated(cluster, given.load or 0.7 * most)
    print(
        json.dumps(
            {"capacity": most, "stops_because_of": why, "limits": cluster.limits, **said}, indent=1, default=plain
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(command())
