"""The compiled inner loops. Imported only when the first fit or stream needs them; compiled once, cached on disk.

Each loop has a NumPy twin that is its specification, and tests hold the two together. Sums may be taken in any order
(`SUMS`), so that they run in vector registers; one instance and a block go through the same loop, and so get the same
numbers. No loop starts a thread.

A loop that may take its sums in any order must not also write to an array: the compiler then makes two forms of it,
and chooses by how far apart the arrays are in memory, so that the last digit depends on where they happen to be. Write
first and sum in a second loop, and sum into a variable, not into an array (`tests/unit/test_kernel_memory.py`).

Plain loops only, no whole-array assignment, sum or product: each of those compiles part of numba's own library, an
assignment alone three seconds of it (the error message that it could give). And one kind of array for each argument:
every other memory layout, and every constant passed as an argument, is compiled again.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

SUMS = {
    "reassoc",
    "contract",
    "nsz",
}  # what vector sums need of fast-math; NaN and infinity keep their meaning
EVEN = np.empty(0)  # no weights: every label counts one
SCALE = (
    2.0**11
)  # of a unit vector in whole numbers (`kernels/ridge.py`); here, so that reading it compiles nothing
FLOOR = 1e-3  # of a probability of a tree's head: one that excludes a class is not believed further
PART = 4.0  # their scores are log p / PART, so that the mixture's temperature 4 is p itself
FADE = 50  # labels between two steps of forgetting
PENDING = 16  # pending rows that are folded into P: few, so that no fold is long
TURN = 16  # rows of the stream between two turns of a pool
FARTHEST = 8.0  # deviations from the mean that the levels of a table are followed
LARGEST_Z = 8.0  # the regressor clips scaled columns there,
FARTHEST_Z = 50.0  # and there for its linear regression, which extrapolates
NOW = -2  # in the place of the newest label that was known: the newest that is known now
TEMPERATURES = 5  # of the experts of our own learner's mixture: 2, 4, 8, 16, 32


def __getattr__(name: str) -> Any:
    """`kernels.experts` and the others, each loaded (and numba with it) when it is first named."""
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(name) from error
