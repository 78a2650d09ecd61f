"""docs/how-far-it-goes.md and its pictures, from scale/measured: every number on the page comes from there.

python benchmarks/scale/page.py [--out docs]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from scale import pictures
from scale.cluster import DISK, Cluster
from scale.events import START
from scale.law import Law
from scale.local import check
from scale.model import TERMS, Model, Row, Shape, fit, medians, read
from scale.scenarios import BUSY, SCENARIOS
from scale.simulate import CHECKED, SIMULATED, WITHIN
from scale.words import number, scaled, size, table

ROOT = Path(__file__).parents[2]
PAGE = "how-far-it-goes.md"
WHY = {
    "workers": "all workers are busy: more workers help",
    "hottest worker": "the worker of the most frequent key is busy: more workers help little",
    "broker network": "the network cards of the brokers are full: more brokers help",
    "broker cores": "the brokers' cores are busy: more brokers help",
    "worker network": "the network cards of the workers' machines are full: more machines help",
    "worker disk": "the disks of the workers' machines are full: more machines, or faster disks, help",
    "checkpoint store": "the checkpoints fill what keeps them: a faster store, or longer intervals",
}


def measured_table(found: dict[tuple[str, int], Row]) -> list[str]:
    def lines() -> Iterator[Sequence[str]]:
        for (name, workers), one in found.items():
            setting = one["setting"]
            yield [
                f"`{name}`", str(workers), str(setting["batch"]), str(setting["labels"]),
                number(one["rows_a_second_alone"]), number(one["rows_a_second"]), f"{one['share']:.2f}",
                scaled(one["batch_seconds"]), scaled(one["latency_p50"]), scaled(one["latency_p99"]),
                size(one["moved_bytes_a_row"]), size(one["state_bytes_a_key"]), size(one["memory_bytes_a_key"]),
                size(one["constants_bytes"]),
            ]  # fmt: skip

    heads = "setting | workers | rows a batch | labels a key | rows/s, own cores | rows/s, as it ran | share of a core"
    return table(heads + " | a batch | p50 | p99 | moved a row | state a key | memory a key | constants", lines())


def check_lines(comparisons: Sequence[dict[str, Any]], held_out: Sequence[dict[str, Any]]) -> list[str]:
    shown = [one for one in comparisons if one["what"] in CHECKED]
    apart = [one for one in shown if abs(one["ratio"] - 1) > WITHIN]
    others = [abs(one["ratio"] - 1) for one in held_out if one["what"] in CHECKED]
    worst = max(shown, key=lambda one: abs(one["ratio"] - 1))
    by = {(one["setting"], one["workers"], one["what"]): one for one in comparisons}

    def lines() -> Iterator[Sequence[str]]:
        for one in shown:
            if one["what"] == CHECKED[0]:
                late = by[one["setting"], one["workers"], CHECKED[1]]
                tail = by[one["setting"], one["workers"], "latency_p99"]
                yield [
                    f"`{one['setting']}`", str(one["workers"]), number(one["measured"]), number(one["simulated"]),
                    f"{one['ratio']:.2f}", scaled(late["measured"]), scaled(late["simulated"]), f"{late['ratio']:.2f}",
                    f"{tail['ratio']:.2f}",
                ]  # fmt: skip

    heads = "setting | workers | rows/s measured | simulated | ratio | mean latency measured | simulated | ratio"
    within = sum(x <= WITHIN for x in others)
    return [
        f"`python benchmarks/scale/simulate.py --check`: {len(shown) - len(apart)} of {len(shown)} comparisons",
        "(rows a second and mean latency as the machine ran) are within 20 %; the furthest is",
        f"`{worst['setting']}` with {worst['workers']} worker(s), ratio {worst['ratio']:.2f}.",
        f"With the model fitted to all settings but the one that is compared, {within} of {len(others)} are:",
        "settings at the edge have to be measured, they cannot be extrapolated.",
        "A p99 of some twenty batches is nearly their longest; it stands beside, unchecked.",
        "",
        *table(heads + " | ratio of p99", lines()),
    ]


def scenario_lines(rows: Sequence[Row]) -> Iterator[str]:
    for scenario in SCENARIOS:
        some = pictures.of(rows, scenario.name, BUSY)
        first = some[0]
        stops = next((r for r in some if r["why"] != "workers"), None)
        kept = pictures.sustained(rows, scenario.name)
        most = max(kept, key=lambda pair: pair[1])
        text = f"- **{scenario.title}**: {number(kept[0][1])} rows/s with one worker, "
        text += f"{number(most[1])} with {most[0]:,}. "
        if stops is None:
            text += "All workers are busy up to 1,000: nothing else stops it. "
        else:
            text += f"At {stops['workers']:,} workers {WHY[stops['why']]}. "
        missed = (first["miss_share"], some[-1]["miss_share"])
        if max(missed) > 0.01:
            text += f"Of all rows, {missed[0]:.0%} (1 worker) to {missed[1]:.0%} (1,000) find their key not in memory. "
        late = (scaled(first["p99"]), scaled(some[-1]["p99"]))
        yield text + f"p99 at {BUSY:.0%} load: {late[0]} with one worker, {late[1]} with 1,000."


def buy_table(rows: Sequence[Row]) -> list[str]:
    def lines() -> Iterator[Sequence[str]]:
        titles = {scenario.name: scenario.title for scenario in SCENARIOS}
        for r in rows:
            if r["kind"] != "buy":
                continue
            head = [titles[r["scenario"]], f"{r['load']:,}"]
            if not r["enough"]:
                yield [*head, f"more than 1,000 do not do it: {number(r['most'])} rows/s; {WHY[r['why']]}", *[""] * 6]
                continue
            yield [
                *head, f"{r['workers']:,}", str(r["machines"]), str(r["brokers"]), number(r["keys"]),
                size(r["memory_bytes"]), size(r["disk_bytes"]), scaled(r["p99"]),
            ]  # fmt: skip

    heads = "what runs | rows/s | workers (cores) | machines of 16 cores | brokers | keys"
    return table(heads + " | memory for keys | disk for states | p99, simulated", lines())


def failure_lines(rows: Sequence[Row]) -> list[str]:
    def failed() -> Iterator[Sequence[str]]:
        for r in rows:
            if r["kind"] == "failures":
                often = {1200.0: "in 20 minutes", 3600.0: "an hour"}.get(r["mtbf"], "never")
                about = [f"{r['checkpoint']:.0f} s", often, str(r["failures"]), "yes" if r["kept_up"] else "no"]
                yield [*about, scaled(r["p50"]), scaled(r["p99"])]

    def slow() -> Iterator[Sequence[str]]:
        for r in rows:
            if r["kind"] == "stragglers":
                behind = "yes" if r["used"]["hottest worker"] > 0.97 else "no"
                about = [str(r["there"]), f"{r['slowness']:g} x", f"{r['load']:.0%}"]
                yield [*about, behind, scaled(r["p50"]), scaled(r["p99"])]

    return [
        f"Simulated: 50 workers at half load for 5 minutes. A worker that fails is missed after {START:g} s, gets the",
        "constants, learns the rows since its last checkpoint again and reads keys as they come. That is what takes",
        "long: each of its keys is read and learns all its rows again when it is first asked for.",
        "",
        *table("checkpoint every | a worker fails once | failures | keeps up | p50 | p99", failed()),
        "",
        "Stragglers among 100 workers, 10 simulated seconds. One that is slower than its load asks for falls behind",
        "for ever, and only its own keys are late; then its keys have to move to another worker.",
        "",
        *table("stragglers | slower by | load | one falls behind | p50 | p99", slow()),
    ]


def model_lines(model: Model, rows: Sequence[Row]) -> list[str]:
    words = {
        "batch": "a batch", "row": "a row", "again": "a row that is learned again", "key": "a distinct key of a batch",
        "miss": "a key that is not in memory: look it up, make its record",
        "own": "a row of a model of its own, beside", "call": "a call of a model of its own",
        "made": "a model of its own that is made", "compare": "a row that local heads compare with",
        "flop": "a flop", "byte": "a byte of rows and records",
    }  # fmt: skip
    a_batch, a_row, a_byte = model.feeder
    keys, written = model.checkpoint
    lines = [
        [words[term], scaled(seconds) if seconds else "0"] for term, seconds in zip(TERMS, model.seconds, strict=True)
    ]
    lines += [
        ["the feeder: a batch, a row, a byte", ", ".join(scaled(x) if x else "0" for x in (a_batch, a_row, a_byte))]
    ]
    lines += [["a checkpoint: a key, a byte", ", ".join(scaled(x) if x else "0" for x in (keys, written))]]
    return table("what | seconds, fitted", iter(lines))


def assumptions(model: Model, rows: Sequence[Row]) -> str:
    c: Any = Cluster(model, Shape.of(rows[0]["shape"]), Law(1), 1.0, 1.0, 1)
    return "; ".join(
        (
            f"batches of at most {c.batch:,} rows, taken at the latest every {c.linger * 1e3:g} ms",
            f"{c.labels:g} labels a key",
            f"{size(c.memory)} of memory a worker for keys",
            f"{c.cores} workers a machine behind {c.machine_gbit:g} Gbit/s, with a disk that writes "
            f"{size(c.machine_disk)} a second",
            f"{c.brokers} brokers of {c.broker_cores} cores and {c.broker_gbit:g} Gbit/s each",
            f"a checkpoint every {c.checkpoint:g} s to a store of {c.store_gbit:g} Gbit/s",
            f"{c.slow:.0%} of the workers {c.slowness:g} times slower",
            f"seconds of a batch vary by {c.spread:.0%}",
            f"a key that is not in memory costs a read of {scaled(DISK)} from the disk beside what was measured",
        )
    )


def page(measured: Sequence[Row], simulated: Sequence[Row]) -> str:
    model, found = fit(measured), medians(measured)
    loads = [row["load"] for row in measured]
    text = (Path(__file__).parent / "page.template").read_text(encoding="utf-8")
    parts = {
        "MEASURED": "\n".join(measured_table(found)),
        "LOADS": f"{min(loads):.0f} to {max(loads):.0f}",
        "CHECK": "\n".join(check_lines(check(measured), check(measured, held_out=True))),
        "MODEL": "\n".join(model_lines(model, measured)),
        "ASSUMPTIONS": assumptions(model, measured),
        "SCENARIOS": "\n".join(scenario_lines(simulated)),
        "FAILURES": "\n".join(failure_lines(simulated)),
        "CALL": scaled(model.seconds[TERMS.index("call")]),
        "MOST": str(measured[0]["shape"]["most"]),
        "BUY": "\n".join(buy_table(simulated)),
    }
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def command() -> None:
    from hedgerow.evaluate.plots import svg

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    parser.add_argument("--png", type=Path, help="a folder for the pictures as PNG too")
    given = parser.parse_args()
    measured, simulated = read(), read(SIMULATED)
    alone = [one for (name, _), one in medians(measured).items() if name in {s.of for s in SCENARIOS}]
    drawn = {
        "scale-throughput": pictures.throughput(simulated, alone),
        "scale-latency": pictures.latency(simulated),
        "scale-limits": pictures.limits(simulated),
    }
    for name, figure in drawn.items():
        (given.out / f"{name}.svg").write_text(svg(figure), encoding="utf-8")
        if given.png:
            figure.savefig(given.png / f"{name}.png", dpi=110, bbox_inches="tight")
    (given.out / PAGE).write_text(page(measured, simulated), encoding="utf-8")


if __name__ == "__main__":
    command()
