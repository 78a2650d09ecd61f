"""Records: arrays that belong together, each declared once with its shape, type, range and meaning.

A record is a named tuple whose fields are annotated arrays, or other records:

    class Votes(NamedTuple):
        labels: Annotated[Array, Spec(("kept",), WHOLE, 0, "K"), "class of each kept row"]
        weights: Annotated[Array, Spec(("kept",), low=0), "how much it counts"]

Compiled kernels take it as it is. From the declaration follow its part of a model's layout, which checks files on load
(`specs`), its first state (`zeros`), its arrays by name and back (`named`, `gathered`), and its table in the
documentation (`table`). A field of a record within a record has the name `outer.inner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import TYPES, Spec

R = TypeVar("R", bound=tuple[Any, ...])


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
    >>> zeros(Sums, heads=2)
    Sums(total=array([0., 0.]))
    >>> print(table(Sums, "mix."))
    | array | shape | what it is |
    |---|---|---|
    | `mix.total` | heads | sum of each head |
    """
    return {
        name: replace(spec, shape=tuple(sizes.get(size, size) for size in spec.shape))  # type: ignore[arg-type]
        for name, spec, _ in _walk(record, prefix)
    }


def zeros(record: type[R], **sizes: int) -> R:
    """A record of zeros; every letter of its shapes has a size."""

    def make(name: str) -> Array:
        spec = made[name]
        return np.zeros(spec.shape, TYPES[spec.kind][0])  # type: ignore[arg-type]

    made = specs(record, "", **sizes)
    return _filled(record, "", make)


def gathered(record: type[R], arrays: Mapping[str, Array], prefix: str = "") -> R:
    """A record of the arrays of a model that have its names."""
    return _filled(record, prefix, arrays.__getitem__)


def _filled(record: type[R], prefix: str, get: Callable[[str], Array]) -> R:
    return record(
        **{
            name: get(prefix + name)
            if isinstance(found, tuple)
            else _filled(found, f"{prefix}{name}.", get)
            for name, found in _declared(record).items()
        }
    )


def named(values: Any, prefix: str = "") -> dict[str, Array]:
    """The arrays of a record by their names in a model: the arrays themselves."""
    arrays: dict[str, Array] = {}
    for name, found in _declared(type(values)).items():
        value = getattr(values, name)
        if isinstance(found, tuple):
            arrays[prefix + name] = value
        else:
            arrays |= named(value, f"{prefix}{name}.")
    return arrays


def table(record: type[Any], prefix: str = "") -> str:
    """The record as a table of Markdown."""
    lines = ["| array | shape | what it is |", "|---|---|---|"]
    for name, spec, meaning in _walk(record, prefix):
        shape = " x ".join(map(str, spec.shape))
        lines.append(f"| `{name}` | {shape} | {meaning} |")
    return "\n".join(lines)


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
