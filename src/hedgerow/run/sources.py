"""Where rows and labels come from: files and pipes here, brokers in `run/brokers.py`."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.events import DUPLICATE, LEARNED, REFUSED, UNKNOWN, LabelResult
from hedgerow.rows import Bad, Late, RowBlock, Wanted, open_file, open_rows
from hedgerow.rows.inputs import TEXT, format_of
from hedgerow.rows.inputs import Files as InputFiles
from hedgerow.run.engine import RunEngine, RunWriter
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import BROKERS, Job, called
from hedgerow.run.report import Say
from hedgerow.run.sinks import Marks
from hedgerow.task import Model, task_of

SIZE = 2048  # rows that are predicted, learned and committed together
HELD = 100_000  # labels that wait for their rows
Place = dict[str, Any] | None


class Source(ABC):
    """Blocks of rows, and the place after each. `late`: whether labels may come apart from their rows."""

    late = True

    @property
    def left(self) -> float | None:
        """The share of the input that is still to come, if that can be known."""
        return None

    @abstractmethod
    def ignored(self) -> tuple[str, ...]:
        """Columns that the model does not know."""

    @abstractmethod
    def __iter__(self) -> Iterator[RowBlock]: ...

    @abstractmethod
    def place(self, block: RowBlock) -> bytes:
        """What a journal keeps with a block, to go on after it."""

    def acknowledge(self, block: RowBlock) -> None:
        """The block is on disk."""
        return

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""


def open_source(job: Job, engine: RunEngine, interrupts: Interrupts, say: Say) -> Source:
    """The input of a run, from where the journal says that an earlier run was."""
    if job.input.startswith(("redis://", "rediss://")):
        from hedgerow.run.brokers import RedisSource

        return RedisSource(job, engine.clf, interrupts)
    if job.input.startswith("kafka://"):
        from hedgerow.run.brokers import KafkaSource

        return KafkaSource(job, engine.clf, interrupts, engine.mark("input"), say)
    return Files(job, engine, interrupts)


def wanted_of(clf: Model, job: Job, id: str | None = None) -> Wanted:
    """What a model expects of a row."""
    names = getattr(clf, "feature_names_in_", None)
    return Wanted(
        clf.n_features_in_,
        None if names is None else list(map(str, names)),
        job.label,
        task_of(clf).reads(clf),
        new_classes=job.new_classes == "learn",
        id=id or job.id,
        table=clf.table_,
        gaps=clf.table_ is None and clf.learner_.gaps,
        keep_cells=clf.table_ is not None and job.journal is not None,
    )


class Files(Source):
    """A file, a folder, a pattern, or a pipe."""

    def __init__(self, job: Job, engine: RunEngine, interrupts: Interrupts) -> None:
        kept = None if job.is_pipe else engine.mark("input")
        before: dict[str, Any] | None = None if kept is None else json.loads(kept)
        pipe = interrupts.reading(_pipe(job.input, interrupts)) if job.is_pipe else None
        self._rows = open_rows(
            job.input, wanted_of(engine.clf, job), format=job.format, size=SIZE, start=before and before["end"],
            descriptor=pipe, bad_apart=job.on_error == "stop",
        )  # fmt: skip
        if before is not None and not self._rows.continues(before["identity"]):
            self._rows.close()
            raise InputError(
                f"{called(job.input)} is not the stream that the journal {job.journal} knows (it begins otherwise); "
                "give that stream, or another journal"
            )
        self.late = job.labels is not None or (job.id is not None and self._rows.format == "jsonl")

    def ignored(self) -> tuple[str, ...]:
        """Of all files so far."""
        return self._rows.ignored

    @property
    def left(self) -> float | None:
        """By bytes."""
        total = self._rows.total
        return None if not total else max(1 - self._rows.done / total, 0.0)

    def __iter__(self) -> Iterator[RowBlock]:
        return read_ahead(iter(self._rows)) if self._rows.total else iter(self._rows)

    def place(self, block: RowBlock) -> bytes:
        """The end of the block, and which stream it is."""
        return json.dumps({"identity": self._rows.identity, "end": block.end}).encode()

    def close(self) -> None:
        """Close the file."""
        self._rows.close()


def read_ahead(blocks: Iterator[RowBlock]) -> Iterator[RowBlock]:
    """The blocks in order, each read while the one before it is worked on."""
    with ThreadPoolExecutor(1, "hedgerow-read-ahead") as pool:
        following = pool.submit(next, blocks, None)
        while (block := following.result()) is not None:
            following = pool.submit(next, blocks, None)
            yield block


def _pipe(name: str, interrupts: Interrupts) -> int:
    """The descriptor of standard input or of a named pipe."""
    if name == "-":
        return 0
    try:
        with interrupts.opening():
            return os.open(name, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error


# -- labels ----------------------------------------------------------------------------------------------


class LateLabels:
    """Labels that come in a file of their own, by id (`--labels`), which may grow, or in the stream after their rows.

    A label is learned when its row has come: known ids at once, others, which are held, when they are known. The order
    is the same however a run was cut into pieces: before a block, all labels that can be read, in the order of their
    file; after it, those that waited for its rows, in the order of the rows.
    """

    def __init__(self, job: Job, engine: RunEngine) -> None:
        self.file = None if job.labels is None else LabelFile(job, engine)
        self._endless = job.is_pipe or job.input.startswith(BROKERS)
        # by id; from the place it would be read again
        self._held: dict[str, tuple[Late, Place]] = {}

    def before(self, writer: RunWriter, final: bool = False) -> list[Bad]:
        """Read on, and learn what can be learned; the labels that cannot be used.

        At most so many labels are held as `HELD`, then no more are read until rows have come. Of an input without an
        end the oldest are given up for them.
        """
        bad: list[Bad] = []
        if self._endless and len(self._held) >= HELD:
            bad += self._given_up(
                SIZE, f"{HELD:,} other labels wait, and no row has come with the id"
            )
        while self.file is not None:
            all_read = self._read(self.file, writer, final, bad)
            if not final:
                break
            bad += self._given_up(HELD + SIZE, "no row has the id")
            if all_read:
                break
        return bad

    def _read(self, file: LabelFile, writer: RunWriter, final: bool, bad: list[Bad]) -> bool:
        """Whether all that can be read was read, by whole blocks."""
        begun = file.place
        for item, place in file.read(final):
            if place is not begun and len(self._held) >= HELD:
                return False
            begun = place
            if isinstance(item, Bad):
                bad.append(item)
            elif (unused := self._learn(writer, item)) is not None:
                bad += unused
            elif (first := self._held.setdefault(item.id, (item, place))[0].label) != item.label:
                reason = f"label of {item.id!r}: {first!r} was given for it before"
                bad.append(Bad(item.line, reason, item.id))
        return True

    def _given_up(self, most: int, reason: str) -> list[Bad]:
        """The oldest labels that are held go."""
        ids = list(islice(self._held, most))
        return [Bad(self._held.pop(id)[0].line, f"{reason} {id!r}", id) for id in ids]

    def after(self, writer: RunWriter, ids: Sequence[str]) -> list[Bad]:
        """Learn what waited for these rows."""
        items = [self._held.pop(id)[0] for id in ids if id in self._held] if self._held else []
        return [bad for item in items for bad in self._learn(writer, item) or ()]

    def in_stream(self, writer: RunWriter, item: Late) -> list[Bad]:
        """Learn a label that stands in the stream itself, after its row."""
        unused = self._learn(writer, item, "")
        return (
            [Bad(item.line, f"no row has the id {item.id!r}", item.id)]
            if unused is None
            else unused
        )

    def _learn(
        self, writer: RunWriter, item: Late, prefix: str = "label of {!r}: "
    ) -> list[Bad] | None:
        """One label: as a bad one, if it cannot be used; None if its id is not known (yet)."""
        try:
            result = writer.label(item.id, item.label)
        except InputError as error:
            result = LabelResult(item.id, REFUSED, item.label, str(error))
        if result.status == UNKNOWN:
            return None
        used = result.status in (LEARNED, DUPLICATE)
        return (
            []
            if used
            else [
                Bad(item.line, prefix.format(item.id) + (result.detail or result.status), item.id)
            ]
        )

    def marks(self) -> Marks:
        """From where labels must be read again after a restart; those that were learned are recognised."""
        if self.file is None:
            return {}
        oldest = next((place for _, place in self._held.values()), self.file.place)
        return {"labels": json.dumps(oldest).encode()}


class LabelFile:
    """Reads on from `place`, whole lines only, unless told that nothing follows.

    With a journal the file will be read again, so that half an object at its end is left until then: `half` is its
    line.
    """

    def __init__(self, job: Job, engine: RunEngine) -> None:
        assert job.labels is not None
        assert job.id is not None
        self.path = job.labels
        self._again = job.journal is not None
        self.half: int | None = None
        self._format = format_of(self.path)
        if self._format not in TEXT:
            raise InputError(f"--labels {self.path}: a file of labels is a .csv, .tsv or .jsonl")
        kept = engine.mark("labels")
        self.place: Place = None if kept is None else json.loads(kept)
        self._size = -1
        with closing(open_file(InputFiles.of(str(self.path), self._format), 0)) as reader:
            names = reader.header()
        others = [name for name in names if name != job.id]
        label = others[0] if len(others) == 1 else "label"
        if job.id not in names or label not in names:
            raise InputError(
                f"--labels {self.path}: it needs the column {job.id!r} (of --id) and one for the labels, called "
                f"'label' if there are more; it has {', '.join(names)}"
            )
        new = job.new_classes == "learn"
        classes = task_of(engine.clf).reads(engine.clf)
        self._wanted = Wanted(0, [], label, classes, new_classes=new, id=job.id)

    def read(self, final: bool) -> Iterator[tuple[Late | Bad, Place]]:
        """What follows, with the place before it: up to the last whole line, or to the end if that is `final`."""
        size = self.path.stat().st_size
        if size == self._size and not final:
            return  # it has not grown
        with open_rows(
            str(self.path), self._wanted, format=self._format, size=SIZE, start=self.place,
            whole_lines=not final or (self._again and self._is_half()),
        ) as rows:  # fmt: skip
            for block in rows:
                for line, id, label in zip(
                    block.lines.tolist(), block.ids or (), block.labels or (), strict=True
                ):
                    item = (
                        Bad(line, "an id without a label", id)
                        if label is None
                        else Late(line, id, label)
                    )
                    yield item, self.place
                yield from ((bad, self.place) for bad in block.bad)
                self.place = block.end
        self._size = size
        if final and self._again and self._is_half():
            self.half = self.place["line"] if self.place else 1

    def _is_half(self) -> bool:
        """Whether the file ends with half an object."""
        if self._format != "jsonl" or self.path.suffix not in (".jsonl", ".ndjson", ".json"):
            return False
        with self.path.open("rb") as file:
            file.seek(self.place["at"] if self.place else 0)
            rest = file.read().rpartition(b"\n")[2]
        try:
            json.loads(rest if rest.strip() else b"null")
        except ValueError:
            return True
        return False
