"""What a fresh process pays: the import, the command's help, the compiled loops from the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from speed import Row, row, side_by_side

REPEATS = 15
PACKAGE = Path(__file__).resolve().parents[2] / "src" / "hedgerow"
FIRST_USE = """
import time
import numpy as np
import scipy.linalg, scipy.sparse, sklearn.utils.validation, numba
from hedgerow import OnlineTransferClassifier
rng = np.random.default_rng(0)
X, y = rng.normal(size=(300, 20)), np.arange(300) % 3
domain = np.repeat([0, 1, -1], 100)
def once():
    began = time.perf_counter()
    clf = OnlineTransferClassifier({method!r}).fit(X, y, sample_domain=domain)
    clf.predict_one(X[0])
    clf.learn_one(X[0], y[0])
    clf.predict_then_learn(X, y)
    return time.perf_counter() - began
first = once()
from hedgerow.kernels.compiled import report
print(first - once(), report().compiled, report().found)
"""
COLD = 3  # processes with an empty cache
COMPILED_AT_IMPORT = """
import sys
import hedgerow, hedgerow.cli.app
print(sum(name.split(".")[0] in ("numba", "llvmlite") for name in sys.modules))
"""


def measure() -> Iterator[Row]:
    """Medians over fresh processes, one kind after the other."""
    times = side_by_side(
        {
            "python": lambda: python("pass"),
            "numpy": lambda: python("import numpy"),
            "hedgerow": lambda: python("import hedgerow"),
            "help": lambda: run([sys.executable, "-m", "hedgerow", "--help"]),
        },
        REPEATS,
    )
    alone = times["python"]
    yield row(
        "import hedgerow against import numpy",
        "<= 1.6 x",
        [("ratio", "<=", 1.6)],
        times,
        ratio=(times["hedgerow"] - alone) / (times["numpy"] - alone),
    )
    yield row("hedgerow --help", "< 0.5 s", [("seconds_taken", "<", 0.5)], times, unit="s", seconds_taken=times["help"])
    modules = int(python(COMPILED_AT_IMPORT))
    yield row(
        "modules of the compiler loaded by import hedgerow", "none", [("modules", "==", 0)], unit="", modules=modules
    )
    for method, most in (("oddm", 20.0), ("hedgerow", 10.0)):
        yield from first_use(method, most)


def first_use(method: str, most: float) -> Iterator[Row]:
    """The first fit and stream of a process beyond what the second takes: with an empty cache, then from the cache.

    A copy of the package is used, without what was compiled beside it before.
    """
    code, cold, warm, loops, before = FIRST_USE.format(method=method), [], [], "", 0
    for _ in range(COLD):
        with tempfile.TemporaryDirectory() as cache:
            shutil.copytree(PACKAGE, Path(cache) / "hedgerow", ignore=shutil.ignore_patterns("__pycache__"))
            places = dict.fromkeys(("PYTHONPATH", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"), cache)
            seconds, loops, found_compiled = python(code, places).split()
            cold.append(float(seconds))
            before += int(found_compiled)
            warm += [float(python(code, places).split()[0]) for _ in range(2)]
    compiled, found = median(cold), median(warm)
    yield row(
        f"first use of {method}, cold cache",
        f"<= {most:g} s",
        [("first_use", "<=", most), ("found_compiled", "==", 0)],
        unit="s",
        first_use=compiled,
        loops_compiled=int(loops),
        found_compiled=before,
    )
    yield row(
        f"first use of {method} in a process, compiled loops from the disk",
        "warm within 1 s",
        [("first_use", "<=", 1.0)],
        {"without a cache": compiled, "from the cache": found},
        unit="s",
        first_use=found,
    )


def python(code: str, environment: dict[str, str] | None = None) -> str:
    """What a fresh interpreter prints."""
    return run([sys.executable, "-c", code], environment)


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """A command's output; an error if it fails."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | (environment or {}))
    return done.stdout
