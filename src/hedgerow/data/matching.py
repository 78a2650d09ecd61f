"""What a model expects of a row, and where it stands in a table: features in the model's order, label, id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.data.columns import label_reader, listed, raw_label


class Encoder(Protocol):
    """What makes the numbers of a row of the cells of a table; see `hedgerow.tables`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it reads."""

    @property
    def left_out(self) -> Any:
        """Columns that it knows and does not read."""

    def bound(self, names: Sequence[str]) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """From the cells of these columns to the row."""

    def of_mapping(self, row: Any) -> Sequence[Any]:
        """From names and values to the row."""

    def of_columns(self, columns: Mapping[str, list[Any]], rows: int) -> Array | None:
        """Many rows by the cells of their columns; None if some have to be looked at one by one."""


class AsTheyAre:
    """Cells as they are written, for whoever will learn an encoder of them."""

    names: tuple[str, ...] = ()
    left_out: Any = ()

    def bound(self, names: Sequence[str]) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """The cells themselves."""
        return lambda cells: list(cells)

    def of_mapping(self, row: Any) -> Sequence[Any]:
        """The mapping itself, as one value."""
        return [row]

    def of_columns(self, columns: Mapping[str, list[Any]], rows: int) -> Array | None:
        """One by one."""
        return None


@dataclass(frozen=True)
class Wanted:
    """What a model expects of a row. Without names, columns are taken in their order.

    With a `table` rows are what that makes of all columns but label and id: it finds them by their names, and a column
    that is not there is a gap.

    `new_classes` says whether a label that is none of the classes can be used; with classes None, labels are taken as
    they are written. `id` is the column that names a row.
    """

    width: int
    names: Sequence[str] | None = None
    label: str | None = None
    classes: Sequence[Any] | Array | None = ()
    new_classes: bool = True
    id: str | None = None
    table: Encoder | None = None

    def __post_init__(self) -> None:
        if self.id is not None and self.id == self.label:
            raise InputError(f"the column {self.id!r} cannot be both id and label")
        names = self.names if self.table is None else self.table.names
        if self.id is not None and names is not None and self.id in names:
            raise InputError(f"the id column {self.id!r} is a feature of the model; choose another column")

    def label_of(self) -> Callable[[Any], Any]:
        """The function from a cell to a label."""
        return raw_label if self.classes is None else label_reader(self.classes, self.new_classes)


@dataclass(frozen=True)
class Places:
    """Numbers of the columns in a table's header, and the names of those that are not used."""

    features: list[int]
    names: list[str]
    label: int | None
    id: int | None
    ignored: tuple[str, ...]


def places_of(wanted: Wanted, header: list[str]) -> Places:
    """Where the features stand, in the model's order, and where label and id stand."""
    place = {name: i for i, name in enumerate(header)}
    for kind, name in (("label column", wanted.label), ("id column", wanted.id)):
        if name is not None and name not in place:
            raise unknown(kind, name, header)
    label = None if wanted.label is None else place[wanted.label]
    id = None if wanted.id is None else place[wanted.id]
    if wanted.table is not None:
        return _places_in_table(wanted.table, header, label, id)
    if wanted.names is None:
        features = [i for i in range(len(header)) if i not in (label, id)]
        if len(features) != wanted.width:
            raise InputError(
                f"{len(features)} feature columns, but the model was fitted on {wanted.width} (without names)"
            )
        return Places(features, [header[i] for i in features], label, id, ())
    missing = [name for name in wanted.names if name not in place]
    if missing:
        raise InputError(f"{these('column', missing)} missing; the input has {listed(header)}")
    known = {*wanted.names, wanted.label, wanted.id}
    ignored = tuple(name for name in header if name not in known)
    return Places([place[name] for name in wanted.names], list(wanted.names), label, id, ignored)


def _places_in_table(table: Encoder, header: list[str], label: int | None, id: int | None) -> Places:
    features = [i for i in range(len(header)) if i not in (label, id)]
    names = [header[i] for i in features]
    if table.names and not set(table.names) & set(names):
        raise InputError(
            f"none of the model's columns ({listed(table.names)}) is there; the input has {listed(header)}"
        )
    known = {*names} if not table.names else {*table.names, *table.left_out}
    return Places(features, names, label, id, tuple(name for name in names if name not in known))


def these(noun: str, names: Sequence[Any]) -> str:
    """A noun with its names and its verb.

    >>> these("column", ["a"]), these("column", ["a", "b"])
    ("column 'a' is", "columns 'a', 'b' are")
    """
    return f"{noun} {names[0]!r} is" if len(names) == 1 else f"{noun}s {listed([repr(n) for n in names])} are"
