"""How fast `hedgerow run` reads a messy CSV, against the same rows as plain numbers of the same width, side by side.

    python benchmarks/table_speed.py [--rows 20000] [--methods pa,hedgerow-linear] [--out benchmarks/table_speed.json]

| way            | what is read                                                                                |
|----------------|---------------------------------------------------------------------------------------------|
| `numbers`      | a CSV of the numbers that the encoder makes of the rows, gaps as zeros: no encoder          |
| `table`        | the messy CSV: an id, a date, two categories, yes and no, numbers with gaps, a note         |
| `line by line` | the same without reading in blocks, as it is where pyarrow is not installed                 |

Rows a second of this process's own time (reading, predicting, learning, writing JSON lines), the best of some turns:
whatever else the machine does, the three share it. `read` is the same without a model: what reading alone takes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.data import csv_rows
from hedgerow.data.matching import Wanted
from hedgerow.data.open_files import Files
from hedgerow.run.job import Job
from hedgerow.run.loop import run

LABEL = "bought"
WAYS = ("numbers", "table", "line by line")


def messy(rows, seed, shift=0.0):
    """A shop's table; whether something is bought depends on age, income, city and vip."""
    rng = np.random.default_rng(seed)
    age, income = rng.normal(40 + shift, 10, rows), rng.normal(3000 + 50 * shift, 800, rows)
    city, vip = rng.choice(["Oslo", "Bergen", "Bodø"], rows), rng.random(rows) < 0.3
    score = (age - 40 - shift) / 10 + (income - 3000 - 50 * shift) / 800 + 2 * (city == "Oslo") + vip - 1
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 8000, rows), unit="h")
    found = {
        "customer": [f"C{seed}-{i:06d}" for i in range(rows)],
        "when": when.strftime("%Y-%m-%dT%H:%M"),
        "city": city,
        "channel": rng.choice(["web", "shop", "phone", "fair"], rows),
        "age": np.where(rng.random(rows) < 0.15, np.nan, age.round(1)),
        "income": np.where(rng.random(rows) < 0.1, np.nan, income.round()),
        "vip": np.where(vip, "yes", "no"),
        "note": [f"called about order {i}, will call again" for i in range(rows)],
        LABEL: np.where(score + rng.normal(0, 0.3, rows) > 0, "sold", "not sold"),
    }
    return pd.DataFrame(found)


def prepared(folder, method, rows):
    """Two models and two files: of tables, and of the numbers that the encoder makes of them."""
    sources = [messy(400, 0), messy(400, 1, 3.0)]
    stream = messy(rows, 2, 6.0)
    table = OnlineTransferClassifier(method).fit_domains(
        [Domain(f"s{i}", t.drop(columns=LABEL), t[LABEL]) for i, t in enumerate(sources)]
    )
    names = [f"f{j}" for j in range(table.n_features_in_)]

    def numbers(t):
        return np.nan_to_num(table.as_matrix(t.drop(columns=LABEL))).round(5)

    plain = OnlineTransferClassifier(method).fit_domains(
        [Domain(f"s{i}", numbers(t), t[LABEL].to_numpy(), feature_names=names) for i, t in enumerate(sources)]
    )
    table.save(folder / "table.safetensors")
    plain.save(folder / "numbers.safetensors")
    stream.to_csv(folder / "table.csv", index=False)
    pd.DataFrame(numbers(stream), columns=names).assign(**{LABEL: stream[LABEL]}).to_csv(
        folder / "numbers.csv", index=False
    )
    return {"table": table, "line by line": table, "numbers": plain}


def read(path, clf):
    """All rows of a file as a model wants them."""
    table = Files.of(str(path), None).open(0)
    names = None if clf.table_ is not None else list(clf.feature_names_in_)
    table.match(Wanted(clf.n_features_in_, names, LABEL, clf.classes_, table=clf.table_))
    for _ in table.stretches():
        pass
    table.close()


def seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(method, rows, turns):
    """Rows a second of each way, and of reading alone."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        models = prepared(folder, method, rows)
        times = {way: [] for way in WAYS}
        reading = {way: [] for way in WAYS}
        for _ in range(turns):
            for way in WAYS:
                file = "numbers" if way == "numbers" else "table"
                slow = mock.patch.object(csv_rows, "plain_reader", return_value=None)
                with slow if way == "line by line" else nullcontext():
                    reading[way].append(seconds(lambda file=file, way=way: read(folder / f"{file}.csv", models[way])))
                    out = folder / "p.jsonl"
                    out.unlink(missing_ok=True)
                    job = Job(folder / f"{file}.safetensors", str(folder / f"{file}.csv"), str(out), LABEL)
                    times[way].append(seconds(lambda job=job: run(job, lambda _: None, lambda _: None)))
                    assert len(out.read_bytes().splitlines()) == rows
        width = models["table"].n_features_in_
    found = {way: round(rows / min(times[way])) for way in WAYS}
    alone = {way: round(rows / max(min(reading[way]), 1e-9)) for way in WAYS}
    ratio = round(found["table"] / found["numbers"], 2)
    return {"method": method, "rows": rows, "width": width, "rows/s": found, "read rows/s": alone, "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--methods", default="pa,hedgerow-linear")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    before = json.loads(given.out.read_text()) if given.out.exists() else []
    for method in given.methods.split(","):
        row = measure(method, given.rows, given.turns)
        print(json.dumps(row), flush=True)
        before = [*(other for other in before if other["method"] != method), row]
        given.out.write_text(json.dumps(before, indent=1) + "\n")


if __name__ == "__main__":
    main()
