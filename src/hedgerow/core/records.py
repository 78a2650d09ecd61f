"""Records: arrays that belong together, each declared once with its shape, type, range and meaning.

A record is a named tuple whose fields are annotated arrays, or other records:

    class Votes(NamedTuple):
        labels: Annotated[Array, Spec(("kept",), WHOLE, 0, "K"), "class of each kept row"]
        weights: Annotated[Array, Spec(("kept",), low=0), "how much it counts"]

Compiled kernels take it as it is. From the declaration follow its part of a model's layout, which checks files on load
(`specs`), and its place in memory (`Stretch`). A field of a record within a record has the name `outer.inner`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import TYPES, Spec

Declared = dict[str, type[Any] | tuple[Spec, str]]
_read: dict[type[Any], Declared] = {}  # declarations that were read: annotations are slow to read


def _declared(record: type[Any]) -> Declared:
    """Each field with the record that it is, or with its spec and meaning; plain numbers are none of either."""
    if record in _read:
        return _read[record]
    hints = get_type_hints(record, include_extras=True)
    fields = _read.setdefault(record, {})
    for name in record._fields:
        hint = hints[name]
        if get_origin(hint) is Annotated:
            _, spec, meaning = get_args(hint)
            fields[name] = (spec, meaning)
        elif hasattr(hint, "_fields"):
            fields[name] = hint
    return fields


def _walk(record: type[Any], prefix: str) -> Iterator[tuple[str, Spec, str]]:
    for name, found in _declared(record).items():
        if isinstance(found, tuple):
            yield prefix + name, *found
        else:
            yield from _walk(found, f"{prefix}{name}.")


def specs(record: type[Any], prefix: str = "", **sizes: int | str) -> dict[str, Spec]:
    """The spec of each array by its name in a model; letters among `sizes` become these numbers or letters.

    >>> from typing import NamedTuple
    >>> class Sums(NamedTuple):
    ...     total: Annotated[Array, Spec(("heads",), low=0), "sum of each head"]
    >>> specs(Sums, "mix.", heads=3)
    {'mix.total': Spec(shape=(3,), kind='double', low=0, high=inf, needed=True)}
    """
    return {
        name: replace(spec, shape=tuple(sizes.get(size, size) for size in spec.shape))  # type: ignore[arg-type]
        for name, spec, _ in _walk(record, prefix)
    }


class Stretch:
    """A record's arrays of these sizes one after the other, in a stretch of memory of doubles.

    >>> from typing import NamedTuple
    >>> class Votes(NamedTuple):
    ...     labels: Annotated[Array, Spec(("kept",), "short"), "class of each kept row"]
    ...     total: Annotated[Array, Spec((1,)), "of all"]
    >>> stretch = Stretch(Votes, kept=5)
    >>> stretch.at.tolist(), stretch.views(np.zeros(stretch.size))["labels"]
    ([0, 2, 3], array([0, 0, 0, 0, 0], dtype=int16))
    """

    def __init__(self, record: type[Any], **sizes: int) -> None:
        """`at`: where each array begins, in doubles; the last number is the size."""
        self._arrays = [
            (name, spec.shape, np.dtype(TYPES[spec.kind][0]))
            for name, spec in specs(record, "", **sizes).items()
        ]
        bytes_of = [int(np.prod(shape)) * kind.itemsize for _, shape, kind in self._arrays]  # type: ignore[arg-type]
        self.at = np.cumsum([0, *(-(-size // 8) for size in bytes_of)])
        self.size = int(self.at[-1])

    def views(self, memory: Array) -> dict[str, Array]:
        """The arrays by name: views of this memory."""
        made = {}
        for (name, shape, kind), a in zip(self._arrays, self.at.tolist(), strict=False):
            count = int(np.prod(shape))  # type: ignore[arg-type]
            made[name] = memory[a:].view(kind)[:count].reshape(shape)  # type: ignore[arg-type]
        return made
