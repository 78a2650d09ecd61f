"""What the arrays of a learner must look like, so that a file can be checked before compiled code sees it.

A `Spec` gives a shape, a type and a range. A dimension is a number or a letter; the same letter is the same number in
all arrays of a model, K and m being the classes and the features that the file's header names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hedgerow import drift as evidence
from hedgerow.core.arrays import LARGEST, Array
from hedgerow.core.errors import InputError

DOUBLE, FLOAT, WHOLE = "double", "float", "whole"  # FLOAT: float32 or float64, the same for all of a model
ROUNDED, SINGLE, SHORT = "rounded", "single", "short"  # ROUNDED: as narrow as its numbers allow
UNHALVED = "unhalved"  # the same, for what compiled loops read as it is: they have no half precision
TYPES = {
    DOUBLE: (np.float64,),
    FLOAT: (np.float32, np.float64),
    WHOLE: (np.int64,),
    ROUNDED: (np.float16, np.float32, np.float64),
    UNHALVED: (np.float32, np.float64),
    SINGLE: (np.float32,),
    SHORT: (np.int16,),
}

Bound = float | str  # the largest value, or the letter of a dimension that all values are below


@dataclass(frozen=True)
class Spec:
    """Shape, type and range of one array; `high` may be a letter: whole numbers below that dimension."""

    shape: tuple[int | str, ...]
    kind: str = DOUBLE
    low: float = -np.inf
    high: Bound = np.inf
    needed: bool = True


@dataclass(frozen=True)
class Layout:
    """The arrays of constants and of state by name; `rules` are checked on all arrays and dimensions at the end."""

    constants: Mapping[str, Spec]
    state: Mapping[str, Spec]
    rules: tuple[Callable[[Mapping[str, Array], Mapping[str, int]], str | None], ...] = field(default=())

    def check(self, constants: Mapping[str, Array], state: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        """Refuse arrays that differ from the specs in name, shape, type or range; the error names the array."""
        found = dict(sizes)
        dtypes: set[np.dtype[np.generic]] = set()
        for arrays, specs in ((constants, self.constants), (state, self.state)):
            for name in arrays:
                if name not in specs:
                    raise InputError(f"an array {name!r} that this model does not have")
            for name, spec in specs.items():
                if name in arrays:
                    _check(name, arrays[name], spec, found, dtypes)
                elif spec.needed:
                    raise InputError(f"the array {name!r} is missing")
        if len(dtypes) > 1:
            raise InputError("some arrays are float32 and some are float64")
        for rule in self.rules:
            broken = rule({**constants, **state}, found)
            if broken:
                raise InputError(broken)


def _check(name: str, array: Array, spec: Spec, sizes: dict[str, int], dtypes: set[np.dtype[np.generic]]) -> None:
    if array.ndim != len(spec.shape):
        raise InputError(f"{name!r} has {array.ndim} dimensions, not {len(spec.shape)}")
    for have, want in zip(array.shape, spec.shape, strict=True):
        expected = sizes.setdefault(want, have) if isinstance(want, str) else want
        if have != expected:
            raise InputError(f"{name!r} has the shape {array.shape}, where {want} is {expected}")
    if array.dtype not in TYPES[spec.kind]:
        raise InputError(f"{name!r} is of type {array.dtype}")
    if spec.kind == FLOAT:
        dtypes.add(array.dtype)
    if array.size:
        low, high = float(array.min()), float(array.max())
        limit = sizes[spec.high] - 1 if isinstance(spec.high, str) else spec.high
        if not (spec.low <= low and high <= limit and abs(low) < FINITE and abs(high) < FINITE):
            raise InputError(f"{name!r} has values from {low} to {high}, outside of what it can have")


FINITE = LARGEST[np.dtype(np.float64)] ** 2 * 2.0**20  # beyond, the next sum could be infinite

SUM = LARGEST[np.dtype(np.float64)] * 2.0**53  # of rows that the estimator accepts
MOST = 2.0**53  # labels: no stream is as long, and beyond it a count is no exact number

COUNTERS = {
    "seen": Spec((1,), WHOLE, 0, MOST),
    "mistakes": Spec((1,), WHOLE, 0, MOST),
    "mixture_loss": Spec((1,), DOUBLE, 0),
}


def common(steps: tuple[str, ...], experts: int) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """What every learner has: moments of sources and target, running statistics of the preprocessing, counters."""
    from hedgerow.core.beside import own_width
    from hedgerow.core.preprocess import DOMAIN_STEPS, FILL

    constants = {
        "source.count": Spec(("n", 1), low=0),
        "source.total": Spec(("n", "m"), low=-SUM, high=SUM),
        "source.class_counts": Spec(("n", "K0"), low=0),
        "source.class_totals": Spec(("n", "K0", "m"), low=-SUM, high=SUM),
    }
    state = {
        "target.count": Spec((1,), low=0),
        "target.total": Spec(("m",), low=-SUM, high=SUM),
        "target.class_counts": Spec(("K",), low=0),
        "target.class_totals": Spec(("K", "m"), low=-SUM, high=SUM),
        "expert_mistakes": Spec((experts,), WHOLE, 0, MOST),
        **COUNTERS,
        evidence.MARKS: Spec((evidence.ROOM, 2 + experts), WHOLE, 0, MOST),
        evidence.START: Spec((2 + experts,), WHOLE, 0, MOST),
        evidence.FOUND: Spec((3,), WHOLE, 0, MOST),
        evidence.LEVEL: Spec((1,), DOUBLE, 0),
        evidence.CHANGE: Spec((4,), WHOLE, 0, MOST),
    }
    m: int | str = "s" if own_width(steps) else "m"  # the columns that are transferred
    for i, step in enumerate(steps):
        if own := own_width([step]):
            state[f"pre.{i}.n"] = Spec((own,), low=0)
            state |= {f"pre.{i}.{name}": Spec((own,), low=-SUM, high=SUM) for name in ("shift", "total")}
            state[f"pre.{i}.squares"] = Spec((own,), low=0)
        elif step in DOMAIN_STEPS:
            side = constants if step == "scale" else state
            side[f"pre.{i}.n"] = Spec((1,), low=np.finfo(float).tiny)
            side |= {f"pre.{i}.{name}": Spec((m,), low=-SUM, high=SUM) for name in ("shift", "total")}
            side[f"pre.{i}.squares"] = Spec((m,), low=0)
        elif step == FILL:
            state[f"pre.{i}.n"] = Spec((m,), low=0)
            state |= {f"pre.{i}.{name}": Spec((m,), low=-SUM, high=SUM) for name in ("shift", "total")}
    return constants, state


def not_more_known_before(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
    """A rule of all learners: the sources had no more classes than there are now, and mistakes are of labels."""
    if sizes["K0"] > sizes["K"]:
        return f"the sources have {sizes['K0']} classes, of {sizes['K']} in all"
    if arrays["mistakes"][0] > arrays["seen"][0]:
        return f"{arrays['mistakes'][0]} mistakes in {arrays['seen'][0]} labels"
    return None
