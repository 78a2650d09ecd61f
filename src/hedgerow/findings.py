"""What is wrong with tables, or odd about them, before anything is fitted: one line a finding, the gravest first.

What would make the result worthless stops: a column that is a number in one table and text in another, labels of
different kinds, labels that are nearly all different. Each message names the remedy for that column alone. Everything
else is said: columns that give the answer away, gaps, repeated rows and ids, dates, rare and missing classes, columns
whose distribution in the target is not that of the sources. Cells are looked at in up to `SAMPLE` rows of each table.

A column gives the answer away where a tree that sees nothing else, tried on the other half of the rows, makes at most
`LEAK` of the mistakes of always naming the most frequent class in every source; of numbers, where its R2 is `FIT`.
On eight real tables the best column removes up to 62 % of these mistakes, on the irises 90 %.

The population stability index of a column compares the shares p and q of its bins, deciles or the most frequent values
and gaps: sum (p - q) ln(p / q). Beside that of the target stands the largest between a source and the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Frame
from hedgerow.core.errors import InputError
from hedgerow.core.values import as_float, date_form, is_missing, moment, plain
from hedgerow.rows.wanted import listed
from hedgerow.tables import (
    FEW_ROWS,
    ID,
    ID_NAME,
    LARGE,
    MOST_ALIKE,
    NAN,
    ODD_DATE,
    SAMPLE,
    Column,
    Named,
    Number,
    TableEncoder,
    TableOptions,
    category,
    filled,
    is_empty,
    recognised,
    truth,
)

WIDEST = 200  # columns up to which each is tried alone
LEAK = 0.03  # share of the majority's mistakes that a column alone may leave
FIT = 0.99  # R2 of a column alone
LEAF = 3  # rows of a leaf of its tree of classes
TRIED = 10  # rows of other classes that a source needs for that
RARE = 0.05  # share of a rare class, which is also below a quarter of an equal one
MANY_GAPS = 0.2
SHIFTED = 0.25  # population stability index from which a distribution is called another
MANY_LABELS = 50  # labels, of which more than half differ, that are no classes
MOST_CLASSES = 8  # that are named in a line
FEW_WORDS = 3  # different texts among numbers that may stand for gaps
COMMA = re.compile(r"[+-]?\d+,\d+")
NUMBER, TRUTH, DATE, TEXT = "number", "yes or no", "date", "text"


class Finding(NamedTuple):
    """One line for a person; `stops`: nothing should be fitted before it is mended."""

    text: str
    stops: bool = False
    leak: str = ""  # a column that gives the label away


# -- what stops ---------------------------------------------------------------------------------------------------


def check_kinds(parts: Sequence[Named], options: TableOptions) -> None:
    """Refuse tables of which one has text where another has numbers."""
    Findings((), [], list(_different_kinds(parts, options).values())).stop()


def check_labels(parts: Sequence[tuple[str, Array]]) -> None:
    """Refuse labels that are text in one source and numbers in another, with the map that would make them alike."""
    firsts = {name: [plain(label) for label in labels[:SAMPLE].tolist()] for name, labels in parts}
    texts, numbers = (
        [name for name, some in firsts.items() if some and all(isinstance(x, kind) for x in some)]
        for kind in (str, int | float)
    )
    if not texts or not numbers:
        return
    alike = {truth(text): text for text in dict.fromkeys(firsts[texts[0]])}
    counted = dict.fromkeys(firsts[numbers[0]])
    pairs = {x: alike[truth(x)] for x in counted if truth(x) is not None and truth(x) in alike}
    words = " ".join(f"--relabel {old}={new}" for old, new in pairs.items())
    remedy = (
        f"{words} (in Python y.map({pairs}))" if len(pairs) == len(counted) else "--relabel OLD=NEW"
    )
    raise InputError(
        f"labels are text in {listed(texts)} (such as {firsts[texts[0]][0]!r}) and numbers in {listed(numbers)} (such "
        f"as {firsts[numbers[0]][0]!r}): write them alike in all sources: {remedy}"
    )


def check_classes_repeat(parts: Sequence[tuple[str, Array]]) -> None:
    """Refuse labels of which more than half differ: they name rows, or are amounts."""
    n = sum(len(labels) for _, labels in parts)
    different = len(set().union(*(labels.tolist() for _, labels in parts)))
    if n >= MANY_LABELS and 2 * different > n:
        name, labels = parts[0]
        raise InputError(
            f"{different} different labels in {n} rows (such as {plain(labels[0])!r} in {name}): they look like "
            f"names of rows or amounts; is this the column of labels? If so, max_classes={2 * different} allows them"
        )


def check_stream(encoder: TableEncoder, X: Array, importances: Mapping[str, float]) -> None:
    """Refuse the first rows of a stream if more than half of what a model goes by is empty in all of them."""
    starts = np.cumsum([0, *(len(column.names) for column in encoder.columns)])
    names = [column.name for column in encoder.columns]
    missing = [name for name, at in zip(names, starts, strict=False) if np.isnan(X[:, at]).all()]
    total = sum(importances.get(name, 0.0) for name in names)
    lost = sum(importances.get(name, 0.0) for name in missing) / total if total else 0.0
    if len(X) >= FEW_ROWS and max(lost, len(missing) / len(names)) > 0.5:
        raise InputError(
            f"{len(missing)} of the model's {len(names)} columns are empty in the first {len(X)} rows "
            f"({listed(missing)}): is this the right file? Name its columns as in the sources; if the target really "
            "lacks them, fit with rows of it (--unlabelled)"
        )


def check_first_labels(labels: Sequence[Any], classes: Collection[Any]) -> None:
    """Refuse the first labels of a stream if nearly each of them is a new class."""
    known = [label for label in labels if label is not None]
    new = set(known).difference(classes)
    if len(known) >= MANY_LABELS and 2 * len(new) > len(known):
        raise InputError(
            f"{len(new)} of the first {len(known)} labels are different classes that the model does not know (such as "
            f"{next(iter(known))!r}): is this the column of labels?"
        )
    numbers = [as_float(label) is not None for label in (*known, *classes)]
    if (
        classes
        and len(known) >= FEW_ROWS
        and numbers == [True] * len(known) + [False] * len(classes)
    ):
        raise InputError(
            f"the first {len(known)} labels are numbers (such as {known[0]!r}) and the model's classes are text (such "
            f"as {next(iter(classes))!r}): write the labels as in the sources"
        )


def _different_kinds(parts: Sequence[Named], options: TableOptions) -> dict[str, Finding]:
    """Columns that are numbers in one table and text in another, with what would mend them."""
    found = {}
    for name in dict.fromkeys(name for part in parts for name in part.table.names):
        if name in options.named:
            continue
        cells = {part.name: part.filled(name, options) for part in parts}
        kinds = {where: kind_of(some) for where, some in cells.items() if len(some)}
        if {NUMBER, TEXT} <= set(kinds.values()):
            numbers, texts = ([p for p, own in kinds.items() if own == k] for k in (NUMBER, TEXT))
            words = _words(cell for part in texts for cell in cells[part])
            found[name] = Finding(
                f"column {name!r} is a number in {listed(numbers)}, text in {listed(texts)} ({words[0]!r}): "
                f"{_remedy(words[0])}, or --column entity={name} for categories, or --column drop={name} to leave "
                "it out",
                stops=True,
            )
    return found


def kind_of(cells: Any) -> str:
    """What most of these cells of one table are."""
    if isinstance(cells, np.ndarray):
        return NUMBER
    if all(truth(cell) is not None for cell in cells):
        return TRUTH
    least = MOST_ALIKE * len(cells)
    if sum(as_float(cell) is not None for cell in cells) >= least:
        return NUMBER
    form = date_form(cells)
    return DATE if sum(moment(cell, form) is not None for cell in cells) >= least else TEXT


def _words(cells: Iterable[Any]) -> list[str]:
    """Cells that are no numbers, each once, the most frequent first."""
    counts = Counter(str(cell).strip() for cell in cells if as_float(cell) is None)
    return [word for word, _ in counts.most_common()]


def _remedy(word: str) -> str:
    """The option that makes a number of such a text, or a gap."""
    if COMMA.fullmatch(word):
        return "pass --decimal , (in a data frame: replace the commas)"
    return f"if {word!r} means that there is no value, pass --na {word!r}"


# -- what is said -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Findings:
    """What a check has found. `columns` has a line a column: its name, what it becomes, what it is in each table."""

    tables: tuple[str, ...]
    columns: list[list[str]]
    found: list[Finding]

    def to_json(self) -> dict[str, Any]:
        """The tables, the columns and the lines."""
        leaks = [each.leak for each in self.found if each.leak]
        return {"tables": self.tables, "columns": self.columns, "texts": self.texts, "leaks": leaks}

    def stop(self) -> None:
        """Raise what stops, as one error."""
        if grave := [each.text for each in self.found if each.stops]:
            raise InputError("\n".join(grave))

    @property
    def texts(self) -> list[str]:
        """The findings, the gravest first."""
        return [each.text for each in self.found] or ["nothing odd was found"]

    def __str__(self) -> str:
        return "\n".join(self.texts)


def examine(
    sources: Sequence[Named],
    target: Named | None = None,
    options: TableOptions | None = None,
    numbers: bool = False,
) -> Findings:
    """Everything that a person should know of these tables before a model is fitted on them.

    Parameters
    ----------
    sources, target
        The tables of the sources with their labels, and rows of the target, if there are any.
    options
        What the user says about columns.
    numbers
        Whether labels are numbers, not classes.
    """
    options = options or TableOptions()
    parts = [*sources, *([] if target is None else [target])]
    plain_numbers = all(part.table.plain for part in parts)  # nothing of these is left out
    columns: dict[str, Column | str] = {}
    lines = []
    for name in dict.fromkeys(name for part in parts for name in part.table.names):
        cells = [part.filled(name, options) for part in parts]
        gaps = [1 - len(some) / len(p.sample) for some, p in zip(cells, parts, strict=True)]
        some_gaps = any(0 < gap < 1 for gap in gaps)
        own = Number(name) if plain_numbers else recognised(name, cells, some_gaps, options)
        columns[name] = own
        kinds = [
            (kind_of(some) if len(some) else "no values")
            + (f", {gap:.0%} gaps" if 0 < gap < 1 else "")
            for some, gap in zip(cells, gaps, strict=True)
        ]
        lines.append([name, f"left out: {own}" if isinstance(own, str) else str(own), *kinds])
    used = [name for name, column in columns.items() if isinstance(column, Column)]
    mixed = _different_kinds(parts, options)
    labelled = [source for source in sources if source.labels is not None]
    shares = {} if numbers else _class_shares(labelled)
    if shares:
        kinds = [
            ", ".join(
                f"{label} {share:.1%}"
                for label, share in list(shares[p.name].items())[:MOST_CLASSES]
            )
            if p.name in shares
            else "-"
            for p in parts
        ]
        lines.append(["the label", f"{len(next(iter(shares.values())))} classes", *kinds])
    others = {name: column for name, column in columns.items() if name not in mixed}
    found = [
        *mixed.values(),
        *_leaks(labelled, used, numbers),
        *_doubtful(parts, others, options),
        *_classes(shares),
        *_repeated(sources, target),
        *_missing(parts, used, options),
        *([] if target is None else _shifted(sources, target, used)),
    ]
    return Findings(tuple(part.name for part in parts), lines, found)


def _coded(parts: Sequence[Named], name: str) -> list[Array]:
    """The cells of a column, table by table, as places among its sorted values; gaps are a value."""
    every = [
        None if is_empty(cell) else cell
        for part in parts
        for cell in np.asarray(part.sample.column(name)).tolist()
    ]
    numbers = [NAN if cell is None else as_float(cell) for cell in every]
    values = [category(cell) for cell in every] if None in numbers else numbers
    codes = np.unique(np.array(values), return_inverse=True)[1].astype(float)
    return np.split(codes, np.cumsum([len(part.sample) for part in parts])[:-1])


def _leaks(sources: Sequence[Named], names: Sequence[str], numbers: bool) -> list[Finding]:
    """Columns each of which gives the label by itself, in every source."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    model = (
        DecisionTreeRegressor(random_state=0)
        if numbers
        else DecisionTreeClassifier(min_samples_leaf=LEAF, random_state=0)
    )
    targets = []
    for source in sources:
        labels = np.asarray(source.labels)[source.rows]
        if numbers and labels.dtype.kind not in "iuf":
            continue  # refused where they are learned
        t = (
            labels.astype(float)
            if numbers
            else np.unique(labels.astype(str), return_inverse=True)[1]
        )
        usual = float(((t - t.mean()) ** 2).sum()) if numbers else len(t) - np.bincount(t).max()
        few = numbers or 4 * len(np.unique(t)) < len(t)
        if few and usual >= (1e-300 if numbers else TRIED):
            targets.append((source, t, (1 - FIT if numbers else LEAK) * usual))
    if not targets or len(names) > WIDEST:
        return []
    what = "gives the number" if numbers else "separates the classes"
    return [
        Finding(
            f"column {name!r} alone {what} in every source: is it known before the label? If not, --column "
            f"drop={name} leaves it out",
            leak=name,
        )
        for name in names
        if all(_lost(model, source, name, t) <= most for source, t, most in targets)
    ]


def _lost(model: Any, source: Named, name: str, t: Array) -> float:
    """Mistakes, or squared errors, of a tree on one column, each half of the rows predicted by the other."""
    if name not in source.table.names:
        return float("inf")
    x = _coded([source], name)[0][:, None]
    order = np.random.default_rng(0).permutation(len(t))
    halves = order[::2], order[1::2]
    lost = 0.0
    for one, other in (halves, halves[::-1]):
        miss = model.fit(x[one], t[one]).predict(x[other]) - t[other]
        lost += float((miss**2).sum() if t.dtype.kind == "f" else (miss != 0).sum())
    return lost


def _doubtful(
    parts: Sequence[Named], columns: Mapping[str, Column | str], options: TableOptions
) -> list[Finding]:
    """Words among numbers, entities, dates that are written in several ways, and what is left out."""
    found = []
    reasons: dict[str, list[str]] = {}
    for name, column in columns.items():
        if isinstance(column, str):
            reasons.setdefault(column, []).append(name)
        elif column.like_dates:
            found.append(Finding(f"column {name!r} {ODD_DATE}; it is a category"))
        if name in options.named:
            continue
        cells = {part.name: list(part.filled(name, options)) for part in parts}
        every = [cell for some in cells.values() for cell in some]
        words = _words(every)
        if words and kind_of(every) == TEXT:
            count = sum(as_float(cell) is not None for cell in every)
            if (len(words) <= FEW_WORDS and 2 * count > len(every)) or all(
                map(COMMA.fullmatch, words)
            ):
                found.append(
                    Finding(
                        f"column {name!r} has {words[0]!r} among its numbers: {_remedy(words[0])}"
                    )
                )
        if ID_NAME.search(name) and (isinstance(column, Number) or column == ID):
            rows = sum(len(part.table) for part in parts)
            values = sum(len(set(filled(part.table, name, options.na))) for part in parts)
            if values < rows and (column == ID or 2 * values <= rows):
                taken = "is left out as an id" if column == ID else "is read as a number"
                found.append(
                    Finding(
                        f"column {name!r} {taken} and looks like an entity, {values} values in {rows} rows: --column "
                        f"entity={name} treats each value as a category"
                    )
                )
        ways = {
            re.sub(r"\d+", "1", some[0]) + date_form(some): f"{some[0]} in {where}"
            for where, some in cells.items()
            if some and isinstance(some[0], str) and kind_of(some) == DATE
        }
        if len(ways) > 1:
            shown = ", ".join(ways.values())
            found.append(
                Finding(
                    f"column {name!r} has dates in several formats, each table read in its own: {shown}"
                )
            )
    for why, names in reasons.items():
        remedy = "" if {*names} <= {*options.named} else " (--column keep=NAME uses one)"
        found.append(Finding(f"left out, {why}: {listed(names)}{remedy}"))
    return found


def rare_below(classes: int) -> float:
    """The share below which one of so many classes is rare.

    >>> rare_below(2), rare_below(10)
    (0.05, 0.025)
    """
    return min(RARE, 0.25 / max(classes, 1))


def _class_shares(sources: Sequence[Named]) -> dict[str, dict[Any, float]]:
    """The share of each class in each source; a class of another source has 0."""
    counts = {}
    for source in sources:
        labels = np.asarray(source.labels)
        counts[source.name] = Counter(labels[~is_missing(labels)].tolist())
    classes = sorted({label for each in counts.values() for label in each}, key=str)
    return {
        name: {label: each[label] / max(each.total(), 1) for label in classes}
        for name, each in counts.items()
    }


def _classes(shares: Mapping[str, Mapping[Any, float]]) -> list[Finding]:
    """Classes that are rare, and those that a source does not have."""
    found = []
    classes = next(iter(shares.values()), {})
    for label in classes:
        own = {name: each[label] for name, each in shares.items()}
        shown = ", ".join(f"{share:.1%} of {name}" for name, share in own.items())
        if max(own.values()) < rare_below(len(classes)):
            found.append(
                Finding(
                    f"class {label!r} is rare, {shown}: look at its average precision, not at mistakes"
                )
            )
        elif min(own.values()) == 0:
            found.append(Finding(f"class {label!r} is missing in some sources: {shown}"))
    return found


def _repeated(sources: Sequence[Named], target: Named | None) -> list[Finding]:
    """Rows that stand there several times, and rows of the target that a source has, too."""
    again = []
    of_sources = set[int]()
    for source in sources:
        keys = _keys(source.table)
        labels = [0] * len(keys) if source.labels is None else source.labels.tolist()
        count = len(keys) - len(set(zip(keys, labels, strict=True)))
        again += [f"{count} of {len(keys)} in {source.name}"] if count else []
        of_sources.update(keys)
    found = [Finding(f"duplicate rows, label included: {listed(again)}")] if again else []
    both = 0 if target is None else sum(key in of_sources for key in _keys(target.table))
    if target is not None and both:
        found.append(
            Finding(f"{both} of {len(target.table)} rows of {target.name} also occur in a source")
        )
    return found


def _keys(table: Frame) -> list[int]:
    """A number a row that is the same for equal rows."""
    keys = np.zeros(len(table), np.int64)
    for name in sorted(table.names):
        column = np.asarray(table.column(name))
        own = column.view(np.int64) if column.dtype == np.float64 else _hashes(column)
        keys = (keys ^ own) * np.int64(0x5851F42D4C957F2D)
        keys ^= keys >> np.int64(29)
    return list(keys.tolist())


def _hashes(column: Array) -> Array:
    return np.fromiter(map(hash, map(str, column.tolist())), np.int64, len(column))


def _missing(parts: Sequence[Named], names: Sequence[str], options: TableOptions) -> list[Finding]:
    """Columns that some tables lack, and those with many gaps."""
    lacking: dict[str, list[str]] = {}
    gappy = []
    for name in names:
        there = [part for part in parts if name in part.table.names]
        if len(there) < len(parts):
            without = listed([part.name for part in parts if part not in there])
            lacking.setdefault(without, []).append(name)
        most = max(1 - len(part.filled(name, options)) / len(part.sample) for part in there)
        gappy += [f"{name} ({most:.0%})"] if most >= MANY_GAPS else []
    found = [Finding(f"not in {where}: {listed(some)}") for where, some in lacking.items()]
    return [*found, *([Finding(f"many gaps: {listed(gappy)}")] if gappy else [])]


def _shifted(sources: Sequence[Named], target: Named, names: Sequence[str]) -> list[Finding]:
    """The columns whose distribution in the target differs most from that in the sources."""
    shifts = []
    for name in names:
        if all(name in part.table.names for part in (*sources, target)):
            *others, own = _coded([*sources, target], name)
            bins = Bins.of(others)
            index = bins.index(own)
            if index > max(SHIFTED, bins.between):
                shifts.append((index, f"{name} {index:.2f} ({bins.between:.2f})"))
    if not shifts:
        return []
    shown = listed([text for _, text in sorted(shifts, reverse=True)], most=5)
    return [
        Finding(
            f"{target.name} is distributed differently from the sources; population stability index, in brackets among "
            f"the sources: {shown}"
        )
    ]


@dataclass(frozen=True, eq=False)
class Bins:
    """Where the rows of the sources fall in a column, for its population stability index.

    `between` is the largest index between a source and the others.

    >>> x = np.arange(100.0)
    >>> bins = Bins.of([x, x])
    >>> round(bins.index(x + 50), 2), bins.between
    (2.28, 0.0)
    """

    edges: Array
    shares: Array
    between: float

    @classmethod
    def of(cls, parts: Sequence[Array]) -> Self:
        """Deciles of the numbers of all sources; NaN is below them."""
        every = _with_gaps(np.concatenate(parts))
        edges = np.unique(np.quantile(every, np.arange(1, 10) / 10, method="lower"))
        each = [_shares(edges, part) for part in parts]
        rests = [
            np.mean(each[:i] + each[i + 1 :], axis=0) for i in range(len(each) * (len(each) > 1))
        ]
        between = max(map(_index, each, rests), default=0.0)
        return cls(edges, np.mean(each, axis=0), between)

    @classmethod
    def of_list(cls, values: Sequence[float]) -> Self:
        """The inverse of `to_list`; what is none is a ValueError."""
        between, *rest = values
        half = len(rest) // 2
        bins = cls(np.array(rest[:half]), np.array(rest[half:]), between)
        if len(bins.shares) != half + 1 or not np.isfinite(values).all() or min(bins.shares) <= 0:
            raise ValueError("bins of a column that are none")
        return bins

    def to_list(self) -> list[float]:
        """All numbers, as model files keep them."""
        return [self.between, *self.edges.tolist(), *self.shares.tolist()]

    def index(self, x: Array) -> float:
        """The population stability index of other rows."""
        return _index(self.shares, _shares(self.edges, x))


def _with_gaps(x: Array) -> Array:
    return np.where(np.isnan(x), -LARGE, x)


def _shares(edges: Array, x: Array) -> Array:
    counts = np.bincount(np.searchsorted(edges, _with_gaps(x)), minlength=len(edges) + 1) + 0.5
    return np.asarray(counts / counts.sum())


def _index(p: Array, q: Array) -> float:
    return float(((p - q) * np.log(p / q)).sum())


def column_numbers(X: Array, span: tuple[int, int]) -> Array:
    """One number a row for a column that an encoder made several of: their sum, the j-th counted j times."""
    first, width = span
    return np.asarray(X[:, first : first + width] @ np.arange(1.0, width + 1))
