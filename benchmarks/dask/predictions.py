"""Our learner from partitions beside the same from memory, on real tasks: predictions over the whole stream.

    python benchmarks/dask/predictions.py

The sources of each task are written as Parquet in several files; `hedgerow-linear` has to predict the same for every
row of the stream, before and after its labels are learned. `hedgerow` draws its landmarks and kept rows as a sample,
another one than in memory: its mistakes are compared, over several seeds of both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hedgerow.dask
from hedgerow import Domain, OnlineTransferClassifier, load, split
from hedgerow.core.arrays import dense
from hedgerow.dask import partitions
from hedgerow.dask.cluster import Place, connected

MEASURED = Path(__file__).parent / "measured" / "predictions.json"
TASKS = (("digits", "shifted"), ("office-caltech", "webcam"), ("office-caltech", "amazon"), ("pie", "PIE5"))
FILES, GROUP = 3, 100


def write(folder: Path, domain: Domain) -> Path:
    folder.mkdir()
    X, y = dense(domain.X), np.asarray(domain.y)
    for i, rows in enumerate(np.array_split(np.arange(len(X)), FILES)):
        columns = {f"f{j}": np.ascontiguousarray(X[rows, j]) for j in range(X.shape[1])}
        table = pa.table(columns | {"the label": pa.array(y[rows].tolist())})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=GROUP)
    return folder


def nameless(domain: Domain) -> Domain:
    return Domain(domain.name, domain.X, domain.y)


def compared(client: Any, data: str, target: str, seeds: int) -> dict[str, Any]:
    domains = {name: nameless(domain) for name, domain in load(data).items()}
    warmup, stream = split(domains.pop(target))
    with tempfile.TemporaryDirectory() as where:
        folders = {name: write(Path(where) / name, domain) for name, domain in domains.items()}

        def both(method: str, seed: int) -> list[OnlineTransferClassifier]:
            made = [OnlineTransferClassifier(method, random_state=seed) for _ in range(2)]
            hedgerow.dask.fit(made[0], folders, "the label", warmup, client=client)
            made[1].fit_domains(list(domains.values()), warmup)
            return made

        linear = both("hedgerow-linear", 0)
        scores = [clf.decision_function(stream.X) for clf in linear]
        before = [clf.predict(stream.X) for clf in linear]
        along = [clf.predict_then_learn(stream.X, stream.y) for clf in linear]
        mistakes = []
        for seed in range(seeds):
            said = [clf.predict_then_learn(stream.X, stream.y) for clf in both("hedgerow", seed)]
            mistakes.append([int((each != stream.y).sum()) for each in said])
    return {
        "task": f"{data}/{target}",
        "rows": len(stream),
        "partitions": linear[0].partitions_.partitions,
        "passes": linear[0].partitions_.passes,
        "other_predictions_before": int((before[0] != before[1]).sum()),
        "other_predictions_along": int((along[0] != along[1]).sum()),
        "largest_score_difference": float(np.abs(scores[0] - scores[1]).max()),
        "default_mistakes": mistakes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", default=",".join("/".join(task) for task in TASKS))
    parser.add_argument("--out", type=Path, default=MEASURED)
    given = parser.parse_args()
    partitions.PARTITION = 2**18  # so that every source has several
    found = []
    with connected(Place(workers=2)) as client:
        for task in given.tasks.split(","):
            found.append(compared(client, *task.split("/"), given.seeds))
            print(json.dumps(found[-1]), flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
