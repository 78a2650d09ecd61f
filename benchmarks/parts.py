"""Other heads and other spaces in the paper's methods: what does each part bring on the tuning tasks?

    python benchmarks/parts.py --out out/parts [--tasks dslr,webcam,PIE5,PIE3] [--seeds 0,1] [--orders 3] [--only heads]

Every combination gets the same splits and orders. Inputs: "general" is the reading of that name, "own" the input map of
our own method (with a^T S a = 1 where there is a JDA, which suits it). A row a finished run goes to OUT/results.jsonl;
what is there is skipped; the table is printed at the end.
"""

from __future__ import annotations

import copy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from refresh_rules import INPUTS, arguments, lines, table

from hedgerow.core.labels import Codes
from hedgerow.experiment import results
from hedgerow.experiment.alignment_cache import AlignmentCache
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.preparation import order_of
from hedgerow.paper.tasks import FAMILY_SETTINGS, find_tasks, prepare

HEADS: dict[str, dict[str, Any]] = {
    "pa1": {},
    "pa1, C .5": {"C": 0.5},
    "pa2": {"head": "pa2"},
    "arow-diagonal, C .5": {"head": "arow-diagonal", "C": 0.5},
    "arow-diagonal": {"head": "arow-diagonal"},
    "arow, C .5": {"head": "arow", "C": 0.5},
    "arow": {"head": "arow"},
    "arow, C 50": {"head": "arow", "C": 50.0},
}
SPACES: dict[str, dict[str, Any]] = {
    **{name: {"aligner": name} for name in ("jda", "identity", "whitened-pca", "whitening", "landmarks")},
    "landmarks, dim 1000": {"aligner": "landmarks", "dim": 1000},
}
PARTS: dict[str, dict[str, dict[str, Any]]] = {
    "heads": {
        f"{method}: {name}": {"method": method, **head}
        for method in ("pa", "oddm-fixed", "oddm")
        for name, head in HEADS.items()
    },
    "spaces": {
        f"oddm-fixed in {space}: {head}": {"method": "oddm-fixed", "head": head, **options}
        for space, options in SPACES.items()
        for head in ("pa1", "arow")
    },
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=[*PARTS], default=None)
    given = parser.parse_args()
    Path(given.out).mkdir(parents=True, exist_ok=True)
    results.mend(given.out)
    wanted = {name: o for part, table_ in PARTS.items() if given.only in (None, part) for name, o in table_.items()}
    there = {(r["task"], r["split"], r["variant"], r["method"], r["trial"]) for r in lines(given.out)}
    cache = AlignmentCache(Path(given.out) / "cache")
    for seed, task, inp in product(map(int, given.seeds.split(",")), find_tasks(given.tasks), INPUTS):
        prepared = prepare(task, seed, "general", given.data_dir)
        for name, options in wanted.items():
            todo = [t for t in range(given.orders) if (task.name, seed, inp, name, t) not in there]
            if not todo:
                continue
            more = {**FAMILY_SETTINGS[task.family], **INPUTS[inp], "horizon": len(prepared.stream)}
            clf = classifier(**{"reading": "general", **more, **options})
            clf.fit_domains(prepared.sources, prepared.warmup, together=prepared.together, align=cache)
            for trial in todo:
                model, order = copy.deepcopy(clf), order_of(trial, len(prepared.stream))
                y = Codes(model.classes_).of(np.asarray(prepared.stream.y)[order])
                wrong = int((model.learner_.run(prepared.stream.X[order], y).predictions != y).sum())
                row = {"group": "parts", "task": task.name, "split": seed, "variant": inp, "method": name}
                results.append(given.out, row | {"trial": trial, "mistakes": wrong, "n": len(y)})
            print(f"{task.title}, split {seed}, input {inp}: {name}", flush=True)
    table(lines(given.out), [*wanted], "part")


if __name__ == "__main__":
    main()
