"""What never changes after `fit`, as one immutable value: arrays by name, known by what they contain; rules as numbers.

Many models may share one `Constants`, in memory and on disk: its `digest` says whether two are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hedgerow.core.arrays import LARGEST, Array

SUM = LARGEST[np.dtype(np.float64)] * 2.0**53  # of rows that the estimator accepts

# the types that the array of a model may have
DOUBLE = "double"
FLOAT = "float"  # float32 or float64, the same for all of a model
WHOLE = "whole"
ROUNDED = "rounded"  # as narrow as its numbers allow
SINGLE = "single"
SHORT = "short"
TYPES: dict[str, tuple[type[np.generic], ...]] = {
    DOUBLE: (np.float64,),
    FLOAT: (np.float32, np.float64),
    WHOLE: (np.int64,),
    ROUNDED: (np.float32, np.float64),
    SINGLE: (np.float32,),
    SHORT: (np.int16,),
}
MOST = 2.0**53  # labels: no stream is as long, and beyond it a count is no exact number

# updates of heads by name, and by the number that compiled loops know them by
PERCEPTRON, PA, PA1, PA2, PA1_PRINTED = range(5)
RULES = {"perceptron": PERCEPTRON, "pa": PA, "pa1": PA1, "pa2": PA2, "pa1-printed": PA1_PRINTED}


@dataclass(frozen=True)
class Spec:
    """Shape, type and range of one array. A dimension may be a letter, or one more than it is ("1+K"); so may `high`:
    whole numbers below that dimension.
    """

    shape: tuple[int | str, ...]
    kind: str = DOUBLE
    low: float = -np.inf
    high: float | str = np.inf
    needed: bool = True


class Constants(Mapping[str, Array]):
    """Arrays by name that can be read and not written: what a model keeps from `fit` and no label changes.

    Many models may share one, in memory and on disk. Two are the same if their digests are.

    Parameters
    ----------
    arrays : mapping from names to arrays
        Taken over, not copied.
    superseded : mapping from names to digests, optional
        Arrays that a file left out since the state replaces them: a model can go on without them, a new one cannot
        start.

    Examples
    --------
    >>> constants = Constants({"mean": np.array([1.0, 2.0])})
    >>> constants["mean"].flags.writeable, len(constants.digest), constants.complete
    (False, 64, True)
    """

    def __init__(
        self, arrays: Mapping[str, Array], superseded: Mapping[str, str] | None = None
    ) -> None:
        self._arrays = {
            name: np.require(np.ascontiguousarray(arrays[name]), requirements="W")
            for name in sorted(arrays)
        }
        self._superseded = dict(superseded or {})
        self._derived: dict[str, Array] = {}
        self._views = {name: array.view() for name, array in self._arrays.items()}
        for view in self._views.values():
            view.flags.writeable = False

    def __getitem__(self, name: str) -> Array:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def for_kernels(self, name: str) -> Array:
        """The array itself, for compiled loops, which a read-only array would have compiled again. Only read it."""
        return self._arrays[name]

    def derived(self, name: str, make: Callable[[], Array]) -> Array:
        """An array that follows from these, made once for all models."""
        if name not in self._derived:
            self._derived[name] = make()
        return self._derived[name]

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each array: of its type, shape and bytes."""
        own = {name: array_digest(array) for name, array in self._arrays.items()}
        return dict(sorted((own | self._superseded).items()))

    @cached_property
    def digest(self) -> str:
        """The digest of all: of the names and their digests."""
        return hashlib.sha256(json.dumps(self.digests).encode()).hexdigest()

    @property
    def complete(self) -> bool:
        """Whether no array was left out: only then can a new model start from it."""
        return not self._superseded

    def __deepcopy__(self, memo: object) -> Constants:
        return self

    def __reduce__(self) -> tuple[type[Constants], tuple[dict[str, Array], dict[str, str]]]:
        return Constants, (self._arrays, self._superseded)


def array_digest(array: Array) -> str:
    """sha256 of an array's type, shape and bytes.

    >>> array_digest(np.zeros(2)) == array_digest(np.zeros((2, 1)))
    False
    """
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()
