"""A process of its own for what a stranger's file could hurt: fitting, and checking an uploaded model.

    python -m hedgerow.service.worker check LIMITS FILE
    python -m hedgerow.service.worker fit LIMITS FOLDER

It says how far it is in JSON lines on stdout, and ends when its stdin does: with the service, whatever ended that.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

MODEL_FILE = "model.safetensors"
JOB = "job.json"
LONGEST_LABEL = 200  # characters


def main(arguments: list[str]) -> int:
    """Do one task; 0 if it succeeded."""
    task, limits, path = arguments
    _limit(json.loads(limits))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from hedgerow.core.errors import HedgerowError

    try:
        (check if task == "check" else fit)(Path(path))
    except HedgerowError as error:
        _say(error=str(error))
    except MemoryError:
        _say(error="it needs more memory than the service allows")
    except Exception as error:
        _say(error=f"an error inside ({type(error).__name__})")
    else:
        _say(progress=1.0, text="done")
        return 0
    return 1


def check(file: Path) -> None:
    """Refuse a file that is not a sound model: load it, look at every number, predict and learn with it."""
    import numpy as np

    from hedgerow.core.errors import InputError
    from hedgerow.regressor import model_of_bytes

    model = model_of_bytes(file.read_bytes(), "the file")
    for name, array in model.learner_.arrays().items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"the file has a number in {name!r} that is not finite")
    longest = max((str(label) for label in getattr(model, "classes_", np.empty(0)).tolist()), key=len, default="")
    if len(longest) > LONGEST_LABEL:
        raise InputError(
            f"the file has a class of {len(longest)} characters ({longest[:20]!r}..); {LONGEST_LABEL} at most"
        )
    if not np.isfinite(try_out(model)).all():
        raise InputError("the model in the file predicts numbers that are not finite")


def try_out(model: Any) -> list[float]:
    """Predict and learn with a model: the numbers that it predicted. What is compiled at first use is then ready."""
    import numpy as np

    from hedgerow.core.values import plain
    from hedgerow.estimator import OnlineTransferClassifier
    from hedgerow.events import labels_together

    X = np.zeros((2, model.n_features_in_), dtype=model.learner_.dtype)
    if not isinstance(model, OnlineTransferClassifier):
        number = model.explain_one(X[0])
        label, numbers = number.prediction, [number.prediction, *number.experts.values(), *number.weights.values()]
    elif len(model.classes_):
        prediction = model.explain_one(X[0])
        label, numbers = model.classes_[0], [*prediction.probabilities.values(), *prediction.weights.values()]
    else:
        return []
    model.learn_one(X[0], label)
    model.predict_then_learn(X, labels_together([plain(label)] * 2))
    return numbers


def fit(folder: Path) -> None:
    """Fit a model on the files that `job.json` names, and leave it beside them."""
    from hedgerow.data import read
    from hedgerow.estimator import OnlineTransferClassifier, arguments_of
    from hedgerow.rows.domains import read_unlabelled

    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    files = [(folder / entry["file"], entry["name"]) for entry in job["sources"]]
    clf = OnlineTransferClassifier(**arguments_of(job["method"], job["options"]))
    sources = []
    for i, (path, name) in enumerate(files):
        _say(progress=0.5 * i / len(files), text=f"reading {name}")
        with _named(path, name):
            sources.append(read(path, label=job["label"], name=name))
    target = None
    if job["unlabelled"] is not None:
        path, name = folder / job["unlabelled"]["file"], job["unlabelled"]["name"]
        with _named(path, name):
            target = read_unlabelled(path, job["label"])
    _say(progress=0.5, text=f"fitting {clf.method}")
    clf.fit_domains(sources, target)
    _say(progress=0.9, text="writing the model")
    clf.save(folder / MODEL_FILE)


@contextlib.contextmanager
def _named(path: Path, name: str) -> Any:
    """Errors speak of the file as its sender calls it, not of where it lies here."""
    from hedgerow.core.errors import HedgerowError, InputError

    try:
        yield
    except MemoryError:
        raise
    except HedgerowError as error:
        raise InputError(str(error).replace(str(path), name)) from error
    except Exception as error:  # what a broken file makes of a reader, whatever it is
        raise InputError(f"{name}: cannot be read as {path.suffix} ({type(error).__name__})") from error


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def _limit(limits: dict[str, float]) -> None:
    """Bound what this process can take, and let the service go first."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        os.nice(10)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (int(limits["bytes"]),) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limits["seconds"]) + 1,) * 2)


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
