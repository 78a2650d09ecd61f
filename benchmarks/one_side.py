"""One checkout of a comparison: answers on its output what `sides.py` asks on its input, a line of JSON each.

    python one_side.py SRC STREAM.npz          (started by `sides.Side`)

It uses only what old and new checkouts have in common: `Domain` and the public methods of `OnlineTransferClassifier`.
"""

from __future__ import annotations

import copy
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WARM = 60  # rows that a copy of the model sees before anything is timed, so that the compiled loops are loaded


class OneSide:
    """A stream, a model that was fitted to its sources, and the model as the last replay left it."""

    def __init__(self, path: str) -> None:
        from hedgerow import Domain

        with np.load(path) as file:
            arrays = dict(file)
        self.X, self.y, self.together = arrays["X"], arrays["y"], arrays["together"]
        self.warmup = Domain("target", arrays["warmup"])
        sources = range(sum(name.startswith("rows of source") for name in arrays))
        self.sources = [
            Domain(f"source {i}", arrays[f"rows of source {i}"], arrays[f"labels of source {i}"]) for i in sources
        ]
        self.fitted: Any = None
        self.replayed: Any = None

    def fit(self, method: str, options: dict[str, Any]) -> None:
        """A model for all that follows; copies of it run over the stream's first rows."""
        from hedgerow import OnlineTransferClassifier

        clf = OnlineTransferClassifier(method, **options)
        self.fitted = clf.fit_domains(self.sources, self.warmup, together=self.together)
        copy.deepcopy(self.fitted).predict_then_learn(self.X[:WARM], self.y[:WARM])
        self.live([[0, min(WARM, len(self.y))]])

    def replay(self) -> dict[str, Any]:
        """The stream in one call: seconds, and the predictions."""
        clf = copy.deepcopy(self.fitted)
        began = time.perf_counter()
        predictions = clf.predict_then_learn(self.X, self.y)
        seconds = time.perf_counter() - began
        self.replayed = clf
        return {"seconds": seconds, "predictions": predictions.tolist()}

    def live(self, stretches: list[list[int]]) -> dict[str, Any]:
        """Seconds of each predict_one and learn_one in these stretches of the stream; what lies before is replayed.

        Garbage is collected when Python decides, as for every user; all runs start with none.
        """
        clf, rows, labels, clock = copy.deepcopy(self.fitted), list(self.X), self.y.tolist(), time.perf_counter
        times, predictions, done = np.empty((len(labels), 2)), [], 0
        gc.collect()
        for first, last in stretches:
            if done < first:
                predictions += clf.predict_then_learn(self.X[done:first], self.y[done:first]).tolist()
            for i in range(first, last):
                began = clock()
                predictions.append(clf.predict_one(rows[i]))
                predicted = clock()
                clf.learn_one(rows[i], labels[i])
                times[i] = predicted - began, clock() - predicted
            done = last
        timed = np.concatenate([times[first:last] for first, last in stretches])
        return {"seconds": timed.tolist(), "predictions": np.array(predictions).tolist()}

    def file(self) -> int:
        """Bytes of the model file after the replay."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self.replayed.save(path)
            return path.stat().st_size


def main() -> None:
    """Answer until the input ends; whatever else is printed goes to the standard error."""
    source, stream = sys.argv[1:]
    replies, sys.stdout = sys.stdout, sys.stderr
    import hedgerow

    if Path(source) not in Path(hedgerow.__file__).parents:
        raise SystemExit(f"the library was to come from {source}, it came from {hedgerow.__file__}")
    side = OneSide(stream)
    print(json.dumps({"answer": "ready"}), file=replies, flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"answer": getattr(side, name)(**arguments)}
        except Exception as error:  # told to whoever asked, who stops
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=replies, flush=True)


if __name__ == "__main__":
    main()
