"""Events: a prediction is asked for under an id, and its label comes later, once, twice, in another order, or never.

The rules are here, with no input or output, for everything that runs: live models, `hedgerow run`, Spark.

| rule       | what it says                                                                                        |
|------------|-----------------------------------------------------------------------------------------------------|
| prediction | an id is predicted once; the same id with the same row gets the same answer, with another an error  |
| label      | the first label of an event is learned; `LabelResult` says what became of every other               |
| expiry     | an event expires after `label_timeout`, or when more than `max_pending` wait; the oldest go first   |
| retention  | of the events that were labelled or expired `keep_events` are remembered, so that retries are known |

A `Ledger` applies them to events wherever they are kept: `MemoryLedger` has them in memory and as bytes, the journal of
a live model (`hedgerow.live`) in SQLite.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy import sparse

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import InputError
from hedgerow.core.frames import NO_OWNER, FrameKind
from hedgerow.core.registry import Limits as Limits
from hedgerow.core.values import LabelResult as LabelResult
from hedgerow.core.values import check_text, is_gap, objects, plain

LEARNED, DUPLICATE, CONFLICT, EXPIRED, UNKNOWN, REFUSED = (
    "learned", "duplicate", "conflict", "expired", "unknown", "refused",
)  # fmt: skip
PENDING = "pending"  # of an event whose label has not come
LONGEST_ID = 200  # characters
OWN = "#"  # begins the ids that a journal makes for events without one
NO_LABEL = "null"  # the label of an expired event, as text


@dataclass(slots=True)
class Event:
    """A prediction: when it was made, which class (`code`) with what probability, of which row.

    `row` is there until the event is labelled or expires. `label` is None while it is pending, then JSON text
    (`NO_LABEL`: expired). `probabilities` are those of all classes, `votes` the class that each expert named,
    where they are kept. In a `MemoryLedger`, `half` is half the width of a number's interval, and `probability` the
    number. `known` is the newest label that was known when the prediction was made, as JSON text.
    """

    number: int
    id: str | None
    time: float
    code: int
    probability: float
    digest: bytes
    row: Any = None
    label: str | None = None
    probabilities: Array | None = None
    votes: Array | None = None
    half: float | None = None
    known: str | None = None

    @property
    def status(self) -> str:
        """pending, learned or expired."""
        return PENDING if self.label is None else EXPIRED if self.label == NO_LABEL else LEARNED


class Clock:
    """Wall time when it is made, then by the seconds that pass: a clock that is set meanwhile ages no event.

    Seconds include those that the machine slept, where the system counts them.
    """

    def __init__(self) -> None:
        self._start = time.time() - self.elapsed()

    @staticmethod
    def elapsed() -> float:
        """Seconds since some moment, which only pass."""
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if boot is None else time.clock_gettime(boot)

    def now(self) -> float:
        """The time."""
        return self._start + self.elapsed()


Learn = Callable[[list[Event], list[Any]], Sequence[bool]]


class Ledger:
    """The rules, over events that a subclass keeps: it has `find`, and `pending`."""

    limits: Limits
    pending: Mapping[Any, Any]  # oldest first

    def find(self, id: str) -> Event | None:
        """The event of an id."""
        raise NotImplementedError

    def predicted(self, id: str, digest: bytes) -> Event | None:
        """The event of an id that was predicted before; an error if that was another row."""
        event = self.find(id)
        if event is not None and event.digest != digest:
            raise InputError(
                f"id {id!r} was used for another instance; give every instance an id of its own"
            )
        return event

    def kept(self, label: Any) -> Any:
        """A label as it is learned and kept; InputError if it cannot be."""
        return label

    def judge(self, id: str, label: Any) -> Event | LabelResult:
        """The event that a label can be learned for, or why it is not learned."""
        event = self.find(id)
        if event is None:
            detail = (
                f"no event {id!r} is known: it was never predicted, or is older than what is kept"
            )
            return LabelResult(id, UNKNOWN, label, detail)
        try:
            text = label_to_json(label)
            if text == NO_LABEL:
                raise InputError("the label is missing; give one, or none at all")
        except InputError as error:
            return LabelResult(id, REFUSED, label, str(error))
        if event.label is None:
            return event
        if event.label == NO_LABEL:
            return LabelResult(
                id,
                EXPIRED,
                label,
                "it came too late: the event has expired, and its row was used without a label",
            )
        if event.label == text:
            return LabelResult(id, DUPLICATE, label)
        before = label_of_json(event.label)
        return LabelResult(
            id, CONFLICT, label, f"{before!r} was learned for it before; nothing was changed"
        )

    def label_many(
        self,
        labels: Sequence[tuple[str, Any]],
        learn: Learn,
        *,
        block: int = 1,
        by_event: bool = False,
    ) -> list[LabelResult]:
        """Labels in order: what can be learned goes to `learn` together, or one by one if one of them is refused.

        `learn` takes events and labels, keeps both, and says which were predicted; it raises InputError, having done
        nothing, for a label that cannot be learned. Fewer than `block` labels are learned one by one; `by_event`: in
        the order of their events.
        """
        results: dict[int, LabelResult] = {}  # by place
        group: dict[int, tuple[int, Event, Any]] = {}  # by number: place, event, label

        def learn_group() -> None:
            taken = [group[number] for number in (sorted(group) if by_event else group)]
            group.clear()
            todo = [taken] if len(taken) >= block else [[one] for one in taken]
            for some in todo:
                try:
                    right = learn([event for _, event, _ in some], [label for *_, label in some])
                except InputError as error:
                    if len(some) > 1:
                        todo += [[one] for one in some]
                    else:
                        refuse(some[0][0], error)
                    continue
                for (place, _, label), correct in zip(some, right, strict=True):
                    results[place] = LabelResult(
                        labels[place][0], LEARNED, label, correct=bool(correct)
                    )

        def refuse(place: int, error: InputError) -> None:
            id, label = labels[place]
            results[place] = LabelResult(id, REFUSED, label, str(error))

        for place, (id, given) in enumerate(labels):
            try:
                label = self.kept(given)
                found = self.judge(id, label)
                if isinstance(found, Event) and found.number in group:
                    learn_group()  # twice in one call: the first counts
                    found = self.judge(id, label)
            except InputError as error:
                refuse(place, error)
                continue
            if isinstance(found, Event):
                group[found.number] = place, found, label_of_json(label_to_json(label))
            else:
                results[place] = found
        learn_group()
        return [results[place] for place in range(len(labels))]

    def overdue(self, now: float) -> list[Any]:
        """The keys of `pending` that expire now, oldest first: too many, or for too long."""
        excess = len(self.pending) - self.limits.max_pending
        timeout = self.limits.label_timeout
        due: list[Any] = []
        for key, asked in self.waiting():
            late = timeout is not None and now - asked >= timeout
            if not late and len(due) >= excess:
                break
            due.append(key)
        return due

    def waiting(self) -> Iterable[tuple[Any, float]]:
        """The keys of `pending`, oldest first, and when each was predicted."""
        return self.pending.items()


EVENTS = FrameKind(b"hre3", "use another copy")


class MemoryLedger(Ledger):
    """Events in memory, and as bytes.

    >>> ledger = MemoryLedger(Limits(max_pending=10))
    >>> event = ledger.add("a", 5.0, 1, 0.75, b"row")
    >>> again = MemoryLedger.from_bytes(ledger.to_bytes(), Limits())
    >>> again.pending["a"] == event, again.judge("b", "mug").status
    (True, 'unknown')
    >>> def learn(events, labels):
    ...     return [again.resolve(event, label).code == label for event, label in zip(events, labels)]
    >>> [result.status for result in again.label_many([("a", 1), ("a", 1), ("a", 2)], learn)]
    ['learned', 'duplicate', 'conflict']
    """

    __slots__ = ("_latest", "_next", "limits", "pending", "resolved")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pending: dict[str, Event] = {}
        self.resolved: dict[str, Event] = {}  # labelled or expired, without their rows
        self._next = 1
        self._latest = 0.0

    def find(self, id: str) -> Event | None:
        """The event of an id."""
        return self.pending.get(id) or self.resolved.get(id)

    def waiting(self) -> Iterable[tuple[str, float]]:
        """The ids of pending events, oldest first, and when each was predicted."""
        return ((id, event.time) for id, event in self.pending.items())

    def add(
        self, id: str, now: float, code: int, probability: float, row: Any, digest: bytes | None = None,
        probabilities: Array | None = None, half: float | None = None,
    ) -> Event:  # fmt: skip
        """A prediction that waits for its label. `row`: bytes, or an array."""
        digest = digest or digest_of(bytes(row))
        event = Event(
            self._next,
            id,
            now,
            code,
            probability,
            digest,
            row,
            probabilities=probabilities,
            half=half,
        )
        self.pending[id] = event
        self._next += 1
        return event

    def resolve(self, event: Event, label: Any) -> Event:
        """A pending event was labelled, or has expired (None)."""
        assert event.id is not None
        event.label = label_to_json(label)
        event.row = event.probabilities = None
        self.resolved[event.id] = self.pending.pop(event.id)
        return event

    def overdue(self, now: float) -> list[str]:
        """As of every ledger; after a clock was set back, events of a time that has not come age from now on."""
        if now < self._latest:
            for event in self.pending.values():
                event.time = min(event.time, now)
        self._latest = now
        return super().overdue(now)

    def forget(self) -> None:
        """All events that are neither pending nor among the last ones that are kept."""
        for id in list(self.resolved)[: max(0, len(self.resolved) - self.limits.keep_events)]:
            del self.resolved[id]

    def to_bytes(self, owner: bytes = NO_OWNER) -> bytes:
        """The ledger; `owner` is a digest of what its events belong to."""
        events = [
            (e.number, e.id, e.time, e.code, e.probability, e.digest.hex(), e.label, e.half)
            for e in (*self.pending.values(), *self.resolved.values())
        ]
        rows = [bytes(event.row) for event in self.pending.values()]
        return EVENTS.pack([self._next, self._latest, events], rows, owner)

    @classmethod
    def from_bytes(
        cls, data: bytes, limits: Limits, owner: bytes = NO_OWNER, name: str = "the ledger"
    ) -> Self:
        """The inverse; an error names `name` and what is wrong with its bytes."""
        _, (following, latest, events), blocks = EVENTS.unpack(
            data, f"{name}: the record of its events", owner
        )
        ledger = cls(limits)
        ledger._next = following
        ledger._latest = latest
        rows = iter(blocks)
        for number, id, asked, code, probability, digest, label, half in events:
            row = next(rows) if label is None else None
            event = Event(
                number, id, asked, code, probability, bytes.fromhex(digest), row, label, half=half
            )
            kept = ledger.pending if label is None else ledger.resolved
            kept[id] = event
        return ledger


# -- ids ---------------------------------------------------------------------------------------------------------------


def check_id(id: object, own: bool = False) -> str:
    """An id as Python's own text; an error if it is none. `own`: ids that a journal makes are taken too."""
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
        raise InputError(f"id {str(id)[:40]!r}: an id is text of 1 to {LONGEST_ID} characters")
    if id.startswith(OWN) and not own:
        raise InputError(
            f"id {id!r}: ids that begin with {OWN!r} are made by the journal; choose another"
        )
    if not id.isprintable():
        raise InputError(f"id {id!r}: an id has printable characters only")
    return str.__str__(id)


def check_ids(ids: Sequence[str] | None, n: int) -> list[str | None]:
    """Ids of n instances, each another; without any all are None."""
    if ids is None:
        return [None] * n
    if isinstance(ids, str) or not isinstance(ids, Sized):
        raise InputError(f"ids={ids!r}: give a list of ids, one for each of {n} rows")
    if len(ids) != n:
        raise InputError(f"{len(ids)} ids for {n} instances; give as many")
    names = [check_id(id) for id in ids]
    if len(set(names)) != n:
        twice = next(id for i, id in enumerate(names) if id in names[:i])
        raise InputError(f"id {twice!r} occurs twice; give every instance an id of its own")
    return list(names)


# -- rows and labels as bytes and text ---------------------------------------------------------------------------------
DENSE = b"d"
SPARSE = b"s"


def row_to_bytes(row: Matrix) -> bytes:
    """One row: a 1-d array, or a sparse 1 x m matrix.

    >>> row_of_bytes(row_to_bytes(np.array([1.0, 2.0])), 2, np.dtype("float64"))
    array([1., 2.])
    """
    return rows_to_bytes(row if is_sparse(row) else row[None])[0]


def rows_to_bytes(X: Matrix) -> list[bytes]:
    """The rows of a matrix."""
    if not is_sparse(X):
        data = np.ascontiguousarray(X).tobytes()
        width = X.shape[1] * X.dtype.itemsize
        return [DENSE + data[i * width : (i + 1) * width] for i in range(len(X))]
    rows = [sparse.csr_matrix(X[i]) for i in range(X.shape[0])]
    return [
        SPARSE
        + np.int64(row.nnz).tobytes()
        + row.indices.astype(np.int64).tobytes()
        + row.data.tobytes()
        for row in rows
    ]


def row_of_bytes(data: bytes, width: int, dtype: np.dtype[Any]) -> Matrix:
    """The inverse, for a model of this width and type."""
    if data[:1] == DENSE:
        return np.frombuffer(
            data, dtype=dtype, offset=1
        ).copy()  # aligned, as compiled loops expect it
    count = int(np.frombuffer(data, dtype=np.int64, offset=1, count=1)[0])
    indices = np.frombuffer(data, dtype=np.int64, offset=9, count=count)
    values = np.frombuffer(data, dtype=dtype, offset=9 + 8 * count).copy()
    return sparse.csr_matrix((values, indices, [0, count]), shape=(1, width))


def rows_together(rows: list[Matrix]) -> Matrix:
    """Rows as one matrix."""
    return sparse.csr_matrix(sparse.vstack(rows)) if is_sparse(rows[0]) else np.stack(rows)


def digest_of(data: bytes) -> bytes:
    """A short digest of a row: the same id may be asked again for the same row only."""
    return hashlib.blake2b(data, digest_size=8).digest()


def label_to_json(label: Any) -> str:
    """A label as text; None and NaN are null.

    >>> label_to_json(np.int64(3)), label_to_json(("a", 1)), label_to_json(None)
    ('3', '["a", 1]', 'null')
    """
    kind = type(label)
    if kind is str or kind is int:  # nearly all are
        return _text_of(label)
    label = plain(label)
    if isinstance(label, str) or type(label) is int:
        return _text_of(label)
    if is_gap(label):
        return "null"
    try:
        return json.dumps(label, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            f"label {_shown(label)} of type {type(label).__name__} cannot be kept; use text, a number, or a tuple of "
            "these"
        ) from None


@lru_cache(maxsize=10_000, typed=True)
def _text_of(label: str | int) -> str:
    try:
        if isinstance(label, str):
            check_text(label)
        return json.dumps(label)
    except InputError:
        raise
    except ValueError:
        raise InputError(
            "a label is a number of more digits than Python writes; make it text"
        ) from None


def _shown(label: Any) -> str:
    try:
        return repr(label)[:200]
    except (ValueError, RecursionError):
        return "(too large to be shown)"


@lru_cache(maxsize=10_000)
def label_of_json(text: str) -> Any:
    """The inverse."""
    return _hashable(json.loads(text))


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value


def labels_together(labels: list[Any]) -> Array:
    """Labels as the array that a block is learned with: of whole numbers or of text where all are, else of objects.

    >>> labels_together([1, 2]), labels_together([1, None])
    (array([1, 2]), array([1, None], dtype=object))
    """
    kinds = set(map(type, labels))
    if (kinds == {str} and "\0" not in "".join(labels)) or (
        kinds == {int} and all(-(2**63) <= edge < 2**63 for edge in (min(labels), max(labels)))
    ):
        return np.array(labels)
    return objects(labels)
