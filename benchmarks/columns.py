"""Columns that not everyone has: are they worth more than cutting all domains to the columns they have in common?

    python benchmarks/columns.py [--data-dir DIR] [--seeds 1] [--out benchmarks/columns.json]

Each source of a task loses a third of its features, a different third each, drawn at random; the target keeps all.

| setting     | what the sources lose                                                                       |
|-------------|---------------------------------------------------------------------------------------------|
| `thirds`    | a third each, drawn for each source by itself                                               |
| `and own`   | the same, and beside it a third that no source has: only the target has these columns       |

| way         | what is fitted                                                                              |
|-------------|---------------------------------------------------------------------------------------------|
| `common`    | only the columns that all domains have                                                      |
| `table`     | every domain with the columns it has (`hedgerow.tables`)                                    |
| `shared`    | as `table`, but the target too is cut to columns that some source has                       |
| `all`       | nothing is hidden: what the features would have been worth                                  |

Mistakes in the first 400 rows of the stream and in its first 50, in percent; 30 % of the target are the warm-up. A row
a task and seed goes to the file, and what is there is not run again; beside the rows
it has the mean of each way, and how often `table` was better than `common`.
"""

from __future__ import annotations

import argparse
import json
from itertools import product, zip_longest
from pathlib import Path

import numpy as np

from hedgerow import Domain, OnlineTransferClassifier, load, split

SETS = ("office-caltech", "amazon-reviews")
FIRST = 50
ROWS = 400  # of a stream
WAYS = ("common", "shared", "table", "all")


def hidden(names, sources, seed, setting):
    """The columns that each source has."""
    rng = np.random.default_rng(seed)
    gone = set()
    if setting == "and own":
        gone = set(rng.choice(names, len(names) // 3, replace=False))
    left = [name for name in names if name not in gone]
    kept = []
    for _ in sources:
        lost = gone | set(rng.choice(left, len(left) // 3, replace=False))
        kept.append([name for name in names if name not in lost])
    return kept


def cut(domain, names, columns):
    """A domain with some of its columns, by name."""
    place = {name: i for i, name in enumerate(names)}
    X = np.asarray(domain.X[:, [place[name] for name in columns]])
    return Domain(domain.name, X, domain.y, feature_names=columns)


def mistakes(sources, warmup, stream, method):
    """In percent: in the stream, and in its first rows."""
    clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    X = stream.X if clf.table_ is None else clf.table_.encode(_table(stream))
    wrong = clf.predict_then_learn(X, stream.y) != stream.y
    return [round(100 * wrong.mean(), 2), round(100 * wrong[:FIRST].mean(), 2)]


def _table(domain):
    from hedgerow.core.mixed import Mixed

    return Mixed.of_matrix(domain.X, domain.feature_names)


def cell(domains, target, seed, setting, method):
    """Mistakes of every way on one task and seed."""
    names = [f"x{j}" for j in range(domains[target].X.shape[1])]
    others = [domain for name, domain in domains.items() if name != target]
    warmup, stream = split(domains[target], warmup=0.3, seed=seed)
    stream = stream.rows(np.arange(min(ROWS, len(stream))))
    kept = hidden(names, others, seed, setting)
    common = [name for name in names if all(name in own for own in kept)]
    some = [name for name in names if any(name in own for own in kept)]
    found = {"columns": {"all": len(names), "common": len(common), "in some source": len(some)}}
    for way in WAYS:
        of_sources = {"common": [common] * len(others), "all": [names] * len(others)}.get(way, kept)
        of_target = {"common": common, "shared": some}.get(way, names)
        if way == "shared" and setting == "thirds":  # hardly any column is hidden in all sources
            continue
        sources = [cut(domain, names, columns) for domain, columns in zip(others, of_sources, strict=True)]
        found[way] = mistakes(sources, cut(warmup, names, of_target), cut(stream, names, of_target), method)
    return found


def summary(rows):
    """Means over tasks and seeds, and in how many of them the table was better."""
    out = {}
    for key in dict.fromkeys((row["set"], row["setting"], row["method"]) for row in rows):
        own = [row for row in rows if (row["set"], row["setting"], row["method"]) == key]
        means = {way: np.mean([row[way] for row in own], axis=0).round(2).tolist() for way in WAYS if way in own[0]}
        better = sum(row["table"][0] < row["common"][0] for row in own)
        out[" / ".join(key)] = {**means, "table better than common": f"{better} of {len(own)}"}
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default="hedgerow")
    parser.add_argument("--settings", default="thirds,and own")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    rows = json.loads(args.out.read_text())["rows"] if args.out.is_file() else []
    sets = {name: load(name, data_dir=args.data_dir) for name in args.sets.split(",")}
    turns = zip_longest(*([(name, target) for target in reversed(domains)] for name, domains in sets.items()))
    tasks = [task for turn in turns for task in turn if task is not None]  # the sets in turn
    order = product(range(args.seeds), args.settings.split(","), args.methods.split(","), tasks)
    for seed, setting, method, (name, target) in order:
        facts = {"set": name, "target": target, "seed": seed, "setting": setting, "method": method}
        if any(facts.items() <= row.items() for row in rows):
            continue
        rows.append(facts | cell(sets[name], target, seed, setting, method))
        print(json.dumps(rows[-1]), flush=True)
        write(args.out, rows)
    print(json.dumps(summary(rows), indent=1))


def write(path, rows):
    found = {"mistakes": "percent: first 400 rows of the stream, first 50", "means": summary(rows), "rows": rows}
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
