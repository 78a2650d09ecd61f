"""Labels that come in a file of their own, by id: `--labels`. It may grow while the run goes on."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.live import answers
from hedgerow.live.answers import Labelled
from hedgerow.rows import Bad, Late, Wanted, open_rows
from hedgerow.run.engine import Engine

# Labels by id, given when their row has come: known ids at once, others when they are known.
#
# The order is the same however a run was cut into pieces: before a block, all labels that can be read, in the order
# of their file; after it, those that waited for its rows, in the order of the rows.
HELD = 100_000  # labels that wait for their rows
UNUSED = (answers.CONFLICT, answers.GIVEN_UP, answers.REFUSED)


class LateLabels:
    """What was read and not used yet: by id its label, its line, and the place from where it would be read again."""

    def __init__(self, engine: Engine, file: LabelFile | None, learned: Callable[[Labelled], None]) -> None:
        self._engine, self._file, self._learned = engine, file, learned
        self._held: dict[str, tuple[Any, int, dict[str, int]]] = {}

    def before(self, final: bool = False) -> list[Bad]:
        """Read on, and give what can be given; the labels that cannot be used."""
        bad: list[Bad] = []
        file = self._file
        while file is not None and len(self._held) < HELD:
            place, found = file.place, False
            for item in file.read(final):
                found = True
                if isinstance(item, Bad):
                    bad.append(item)
                    continue
                result = self.give(item)
                if result is None:
                    first = self._held.setdefault(item.id, (item.label, item.line, place))[0]
                    if first != item.label:
                        bad.append(Bad(item.line, f"label of {item.id!r}: {first!r} was given for it before", item.id))
                elif result.status in UNUSED:
                    bad.append(_unused(item, result))
                if len(self._held) >= HELD:
                    break
            if not found or final:
                break
        if final:
            bad += [Bad(line, f"no row has the id {id!r}", id) for id, (_, line, _) in self._held.items()]
            self._held.clear()
        return bad

    def after(self, ids: Sequence[str]) -> list[Bad]:
        """Give what waited for these rows."""
        bad = []
        for id in ids if self._held else ():
            if id in self._held:
                label, line, _ = self._held.pop(id)
                item = Late(line, id, label)
                result = self.give(item)
                if result is not None and result.status in UNUSED:
                    bad.append(_unused(item, result))
        return bad

    def give(self, item: Late) -> Labelled | None:
        """One label; None if its id is not known (yet)."""
        try:
            result = self._engine.label(item.id, item.label)
        except InputError as error:
            return Labelled(item.id, answers.REFUSED, item.label, str(error))
        if result.status == answers.UNKNOWN:
            return None
        if result.status == answers.LEARNED:
            self._learned(result)
        return result

    def place(self) -> bytes | None:
        """From where labels must be read again after a restart; those that were learned are recognised."""
        if self._file is None:
            return None
        oldest = next((place for _, _, place in self._held.values()), self._file.place)
        return json.dumps(oldest).encode()


def _unused(item: Late, result: Labelled) -> Bad:
    return Bad(item.line, f"label of {item.id!r}: {result.text or result.status}", item.id)


CHUNK = 1 << 20  # bytes that are looked at together
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class LabelFile:
    """Reads on from `place`, whole lines only, unless told that nothing follows.

    `again`: the file will be read again, so that half an object at its end is left until then. `half` is its line.
    """

    def __init__(self, path: Path, id: str, wanted: Wanted, place: dict[str, int] | None, again: bool = False) -> None:
        self.path, self._wanted, self._again = path, wanted, again
        self.half: int | None = None
        self._format = FORMATS.get(path.suffix.lower())
        if self._format is None:
            raise InputError(f"--labels {path}: a file of labels is a .csv, .tsv or .jsonl")
        self.at, self.line = (place["at"], place["line"]) if place else (0, 0)
        with self._open() as file:
            size = file.seek(0, io.SEEK_END)
        if size < self.at:
            raise InputError(
                f"--labels {path}: shorter than before: it ends before byte {self.at}, the place to go on; was it "
                "cut or replaced?"
            )
        self._header = b""
        self._columns(id)

    def _columns(self, id: str) -> None:
        """The id column and the label column, which is the only other one or is called "label"."""
        with self._open() as file:
            first = file.readline()
        if not first.strip():
            raise InputError(f"--labels {self.path}: the file is empty; its first line must name the columns")
        if self._format == "jsonl":
            try:
                names = list(json.loads(first))
            except ValueError:
                raise InputError(f"--labels {self.path}: its first line is not JSON") from None
        else:
            self._header = first
            mark = "\t" if self._format == "tsv" else ","
            names = [name.strip().strip('"') for name in first.decode("utf-8-sig", "replace").split(mark)]
            if self.at == 0:
                self.at, self.line = len(first), 1
        others = [name for name in names if name != id]
        label = others[0] if len(others) == 1 else "label"
        if id not in names or label not in names:
            raise InputError(
                f"--labels {self.path}: it needs the column {id!r} (of --id) and one for the labels, called 'label' if "
                f"there are more; it has {', '.join(names)}"
            )
        base = self._wanted
        self._wanted = Wanted(0, [], label, base.classes, new_classes=base.new_classes, id=id)

    def _open(self) -> io.BufferedReader:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise InputError(f"cannot read --labels {self.path}: {error.strerror}") from error

    @property
    def place(self) -> dict[str, int]:
        """To go on from."""
        return {"at": self.at, "line": self.line}

    def _whole(self, data: bytes, end: bool) -> bytes:
        """Of the bytes that follow, the lines that can be taken; at the end of the file the last one too."""
        lines = data[: data.rfind(b"\n") + 1]
        rest = data[len(lines) :]
        if not end or not rest:
            return lines
        if self._again and self._format == "jsonl" and not _is_json(rest):
            self.half = self.line + lines.count(b"\n") + 1
            return lines
        return data

    def read(self, final: bool) -> Iterator[Late | Bad]:
        """What follows, up to the last whole line, or to the end if that is `final`."""
        while True:
            with self._open() as file:
                file.seek(self.at)
                data = file.read(CHUNK)
            whole = self._whole(data, final and len(data) < CHUNK)
            if not whole:
                return
            before = self.line - (1 if self._header else 0)
            source = io.BytesIO(self._header + whole)
            with open_rows("-", self._wanted, format=self._format, size=10**9, descriptor=source) as rows:
                for block in rows:
                    for line, id, label in zip(block.lines, block.ids or [], block.labels or [], strict=True):
                        if label is None:
                            yield Bad(int(line) + before, "an id without a label", str(id))
                        else:
                            yield Late(int(line) + before, id, label)
                    yield from (Bad(bad.line + before, bad.reason, bad.text) for bad in block.bad)
            self.at += len(whole)
            self.line += whole.count(b"\n") + (0 if whole.endswith(b"\n") else 1)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
