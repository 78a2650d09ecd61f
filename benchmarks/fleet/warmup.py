"""What warm-up rows are worth to a key of a fleet: mistakes of a stream without them, with them, and of a model of its
own that was fitted with them (its maps look at them too).

    HEDGEROW_DATA=.. python benchmarks/fleet/warmup.py --data office-caltech,pie --orders 3
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from hedgerow import OnlineTransferClassifier, load, split
from hedgerow.fleet import Fleet

HERE = Path(__file__).parent


def measure(name, target, method, orders):
    """Percent of mistakes: none, warm-up rows in the fleet, a model of its own."""
    domains = load(name)
    sources = [domain for key, domain in domains.items() if key != target]
    warmup, stream = split(domains[target], warmup=0.3, seed=0)
    own = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    data, constants, found = own.to_bytes(constants=False), own.constants_, []
    with Fleet(sources, method) as fleet:
        for order in range(orders):
            at = np.random.default_rng(order).permutation(len(stream))
            X, y = stream.X[at], stream.y[at]
            fleet.warm_up(f"warm {order}", warmup.X)
            model = OnlineTransferClassifier.from_bytes(data, constants=constants)
            said = [
                fleet[f"none {order}"].predict_then_learn(X, y),
                fleet[f"warm {order}"].predict_then_learn(X, y),
                model.predict_then_learn(X, y),
            ]
            found.append([100 * float(np.mean(labels != y)) for labels in said])
    none, warm, alone = np.mean(found, axis=0)
    return {"task": target, "method": method, "rows": len(stream), "none": none, "warm": warm, "own": alone}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="office-caltech,pie")
    parser.add_argument("--methods", default="hedgerow,hedgerow-linear")
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "warmup.jsonl")
    given = parser.parse_args()
    for name in given.data.split(","):
        for target in load(name):
            for method in given.methods.split(","):
                row = {"data": name, "orders": given.orders, **measure(name, target, method, given.orders)}
                print(row, flush=True)
                with given.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
