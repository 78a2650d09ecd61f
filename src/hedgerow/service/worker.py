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
    from hedgerow.estimator import OnlineTransferClassifier

    clf = OnlineTransferClassifier.from_bytes(file.read_bytes(), name="the file")
    for name, array in clf.learner_.arrays().items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"the file has a number in {name!r} that is not finite")
    longest = max((str(label) for label in clf.classes_.tolist()), key=len, default="")
    if len(longest) > LONGEST_LABEL:
        raise InputError(
            f"the file has a class of {len(longest)} characters ({longest[:20]!r}..); {LONGEST_LABEL} at most"
        )
    x = np.zeros(clf.n_features_in_, dtype=clf.learner_.dtype)
    if len(clf.classes_):
        prediction = clf.explain_one(x)
        if not np.isfinite([*prediction.probabilities.values(), *prediction.weights.values()]).all():
            raise InputError("the model in the file predicts numbers that are not finite")
        clf.learn_one(x, clf.classes_[0])


def fit(folder: Path) -> None:
    """Fit a model on the files that `job.json` names, and leave it beside them."""
    from hedgerow.data import read
    from hedgerow.estimator import OnlineTransferClassifier

    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    files = [(folder / entry["file"], entry["name"]) for entry in job["sources"]]
    clf = OnlineTransferClassifier(**_options(job["method"], job["options"]))
    sources = []
    for i, (path, name) in enumerate(files):
        _say(progress=0.5 * i / len(files), text=f"reading {name}")
        with _named(path, name):
            sources.append(read(path, label=job["label"], name=name))
    target = None
    if job["unlabelled"] is not None:
        path, name = folder / job["unlabelled"]["file"], job["unlabelled"]["name"]
        with _named(path, name):
            target = _unlabelled(path, job["label"], name)
    _say(progress=0.5, text=f"fitting {clf.method}")
    clf.fit_domains(sources, target)
    _say(progress=0.9, text="writing the model")
    clf.save(folder / MODEL_FILE)


def _unlabelled(path: Path, label: str, name: str) -> Any:
    """Rows of the target; a label column that happens to be there is not looked at."""
    from hedgerow.core.errors import InputError
    from hedgerow.data import read

    try:
        return read(path, label=label, name=name).unlabelled()
    except InputError as error:
        if not str(error).startswith("unknown "):  # anything but "there is no such column"
            raise
    return read(path, name=name).unlabelled()


def _options(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the classifier; answers of a reading may stand among them, as for `hedgerow fit --option`."""
    from dataclasses import fields

    from hedgerow.core.errors import unknown
    from hedgerow.estimator import OnlineTransferClassifier
    from hedgerow.methods import Reading, reading_of

    answers = [each.name for each in fields(Reading) if each.name not in ("preprocess", "split_rule", "preset")]
    known = [name for name in OnlineTransferClassifier().get_params() if name != "method"]
    for key in options:
        if key not in (*known, *answers):
            raise unknown("option", key, [*known, *answers])
    arguments = {key: value for key, value in options.items() if key in known}
    of_reading = {key: value for key, value in options.items() if key not in known}
    preset = arguments.pop("reading", "general")
    reading = reading_of(preset, method, **of_reading) if of_reading else preset
    return {"method": method, "reading": reading, **arguments}


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
