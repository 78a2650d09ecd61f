"""The check of an uploaded model, in a process of its own with limited memory and time.

    python -m hedgerow.service.check LIMITS FILE

It prints what is wrong with the file as a line of JSON, and ends when its stdin does: with the service, whatever ended
that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

from hedgerow.core.errors import HedgerowError, InputError

LONGEST_LABEL = 200  # characters
SECONDS = 120.0  # for one check: the largest file that may be sent needs half of them
MEMORY = 8 << 30  # bytes of address space, most of which a process reserves and never uses


async def check_apart(file: Path, seconds: float = SECONDS, memory: int = MEMORY) -> None:
    """Check a file in another process, which ends before this does; `InputError` says what is wrong with it."""
    limits = json.dumps({"seconds": seconds, "bytes": memory})
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hedgerow.service.check",
        limits,
        str(file),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            said = await process.stdout.read()
            code = await process.wait()
    except TimeoutError:
        raise InputError(f"it took longer than the {seconds:g} s that the service allows") from None
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.shield(process.wait())
    if said:
        raise InputError(json.loads(said))
    if code != 0:
        raise InputError(
            f"its process ended with code {code}: it may need more memory or time than the service allows"
        )


def main(arguments: list[str]) -> int:
    """Check one file; 0 if it is a sound model."""
    limits, path = arguments
    _limit(json.loads(limits))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        check(Path(path))
    except HedgerowError as error:
        print(json.dumps(str(error)))
    except MemoryError:
        print(json.dumps("it needs more memory than the service allows"))
    except Exception as error:
        print(json.dumps(f"internal error ({type(error).__name__})"))
    else:
        return 0
    sys.stdout.flush()
    return 1


def check(file: Path) -> None:
    """Refuse a file that is not a sound model: load it, look at every number, predict and learn with it."""
    import numpy as np

    from hedgerow.regressor import model_of_bytes

    model = model_of_bytes(file.read_bytes(), "the file")
    for name, array in model.learner_.arrays().items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"the file has a number in {name!r} that is not finite")
    longest = max(
        (str(label) for label in getattr(model, "classes_", np.empty(0)).tolist()),
        key=len,
        default="",
    )
    if len(longest) > LONGEST_LABEL:
        raise InputError(
            f"the file has a class of {len(longest)} characters ({longest[:20]!r}..); {LONGEST_LABEL} at most"
        )
    if not np.isfinite(try_out(model)).all():
        raise InputError("the model in the file predicts numbers that are not finite")


def try_out(model: Any) -> list[float]:
    """Predict and learn with a model: the numbers that it predicted. What is compiled at first use is then ready."""
    import numpy as np

    from hedgerow.events import labels_together
    from hedgerow.task import task_of

    task = task_of(model)
    scale = task.scale(model)
    if not scale:
        return []
    X = np.zeros((2, model.n_features_in_), dtype=model.learner_.dtype)
    predicted = task.predict(model, X[:1])
    label = task.value(int(predicted.codes[0]), predicted.P[0], scale)
    numbers = [*predicted.P[0].tolist(), *predicted.votes[0].tolist(), *model.weights_.values()]
    model.learn_one(X[0], label)
    model.predict_then_learn(X, labels_together([label] * 2))
    return numbers


def _limit(limits: dict[str, float]) -> None:
    """Bound what this process can take, and let the service go first."""
    with contextlib.suppress(OSError, ValueError):  # a limit is below it already
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
