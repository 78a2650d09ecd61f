"""Run the numeric unit tests as other processors would compute: `python tests/processors.py` (`make test-rest`).

The BLAS of NumPy and SciPy (OpenBLAS) has other kernels for other processors, which add in another order, and numba
compiles for the processor that it finds. A result that depends on the last digit is green on one machine and red on
another. So the tests of FILES run once for each kind of processor that this machine can play. A kind that it cannot
play is reported and skipped: where OpenBLAS crashes, or goes on with the kernels of another kind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

UNIT = Path(__file__).parent / "unit"
FILES = (
    "test_regressor.py",
    "test_laws_rounding.py",
    "test_number_bound.py",
    "test_ridge_kernels.py",
    "test_kernels.py",
    "test_near.py",
    "test_pool.py",
)
CORES = ("Prescott", "Haswell", "SkylakeX", "Zen")
# which kernels each OpenBLAS of a process has taken, after a product that would crash a processor without them
PROBE = """
import json
import numpy as np, scipy.linalg
from threadpoolctl import threadpool_info
M = np.eye(100) + np.ones((100, 100)) @ np.ones((100, 100))
scipy.linalg.cho_solve(scipy.linalg.cho_factor(M), np.linalg.inv(M))
print(json.dumps([each["architecture"] for each in threadpool_info() if each["internal_api"] == "openblas"]))
"""
NAMES = {"Katmai": "Prescott"}  # as the wheels of NumPy and SciPy call it


def kernels(core: str = "") -> set[str]:
    """The names of the kernels that OpenBLAS takes when it is asked for those of a core."""
    environment = os.environ | ({"OPENBLAS_CORETYPE": core} if core else {})
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        return {f"none: it ends with {done.returncode}"}
    return {NAMES.get(name, name) for name in json.loads(done.stdout)}


def passed(**environment: str) -> bool:
    """Whether the tests pass in this environment."""
    print(f"-- {environment}", flush=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "auto",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
    ]
    command += ["-k", "not scikit_learns_checks"]  # most of the time, and least of the numbers
    files = [str(UNIT / name) for name in FILES]
    done = subprocess.run(
        [*command, *files], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | environment
    )
    return done.returncode == 0


def main() -> int:
    """Run all; 1 if a test failed."""
    own = kernels()
    print(
        f"OpenBLAS takes these kernels by itself: {', '.join(sorted(own))}; `make test` has run them"
    )
    failed = []
    for core in CORES:
        taken = kernels(core)
        if taken != {core} or taken == own:
            print(
                f"{core}: skipped, OpenBLAS takes these kernels: {', '.join(sorted(taken))}",
                flush=True,
            )
        elif not passed(OPENBLAS_CORETYPE=core):
            failed.append(core)
    if not passed(NUMBA_CPU_NAME="generic"):
        failed.append("NUMBA_CPU_NAME=generic")
    print(f"failed: {', '.join(failed)}" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
