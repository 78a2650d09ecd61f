"""What happens to one key in one batch. Nothing of Spark is in here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.labels import plain
from hedgerow.fleet import Member
from hedgerow.live import answers
from hedgerow.live.rows import digest_of
from hedgerow.spark.ledger import GIVEN_UP, Answered, Ledger, Pending
from hedgerow.spark.results import DEAD_LETTER, LABEL, NEW, PREDICTION, REPEATED, Result
from hedgerow.spark.settings import Settings

INSTANCE, ANSWER = 0, 1  # the kinds of rows that come in
NO_ORDER = -(2**63)  # stands for an order that is missing
LONGEST_ID = 200


class Given(NamedTuple):
    """A row that came in: an instance (x) or a label (None where it is missing)."""

    kind: int
    id: str | None
    order: int
    x: Array | None
    label: Any


@dataclass
class Turn:
    """One key in one batch; `results` is what comes out, `learned` whether its learner changed, `changed` its ledger.

    features : the names of the features, for reasons. ordered : whether rows have an order of their own; without one
    a batch's instances come first, then its labels in the order of their events.
    """

    member: Callable[[], Member]
    ledger: Ledger
    settings: Settings
    features: tuple[str, ...]
    ordered: bool
    now: int = 0
    results: list[Result] = field(default_factory=list)
    learned: bool = False
    changed: bool = False

    def take(self, rows: Iterable[Given]) -> None:
        """All rows of the batch, in an order that does not depend on how Spark brought them."""
        good = [row for row in rows if self._usable(row)]
        if self.ordered:
            good.sort(key=lambda row: (row.order, row.kind, row.id, repr(row.label)))
            for kind, run in groupby(good, key=lambda row: row.kind):
                (self._ask if kind == INSTANCE else self._answer)(list(run))
        else:
            self._ask(sorted((row for row in good if row.kind == INSTANCE), key=lambda row: str(row.id)))
            place = {id: i for i, id in enumerate(self.ledger.pending)}
            labels = [row for row in good if row.kind == ANSWER]
            self._answer(sorted(labels, key=lambda row: (place.get(str(row.id), 0), str(row.id), repr(row.label))))
        self.give_up()

    def _usable(self, row: Given) -> bool:
        reason = fault_of(row, self.features, self.ordered)
        if reason is not None:
            self.results.append(dead_letter(row, reason))
        return reason is None

    # -- instances ----------------------------------------------------------------------------------------------

    def _ask(self, rows: list[Given]) -> None:
        new: dict[str, Array] = {}
        again = []
        for row in rows:
            assert row.id is not None
            assert row.x is not None
            if row.id in new or row.id in self.ledger.pending or row.id in self.ledger.answered:
                again.append(row)
            else:
                new[row.id] = row.x
        if new:
            self._predict(new)
        self.results.extend(self._repeated(row) for row in again)

    def _predict(self, new: dict[str, Array]) -> None:
        member = self.member()
        P = member.predict_proba(np.stack(list(new.values())))
        codes = P.argmax(axis=1).tolist()
        for (id, x), code, shares in zip(new.items(), codes, P, strict=True):
            share = float(shares[code])
            self.ledger.pending[id] = Pending(self.now, code, share, x)
            self.results.append(Result(PREDICTION, id, plain(member.classes_[code]), share, NEW))
        self.changed = True

    def _repeated(self, row: Given) -> Result:
        assert row.id is not None
        assert row.x is not None
        known: Pending | Answered = self.ledger.pending.get(row.id) or self.ledger.answered[row.id]
        digest = known.digest if isinstance(known, Answered) else digest_of(known.x.tobytes())
        if digest != digest_of(row.x.tobytes()):
            return dead_letter(
                row, f"id {row.id!r} was used for another instance; give every instance an id of its own"
            )
        label = plain(self.member().classes_[known.code])
        return Result(PREDICTION, row.id, label, known.probability, REPEATED)

    # -- labels -------------------------------------------------------------------------------------------------

    def _answer(self, rows: list[Given]) -> None:
        group: dict[str, Any] = {}
        for row in rows:
            assert row.id is not None
            if row.id in group:  # twice in one batch: the first counts
                self._learn(group)
                group = {}
            if row.id in self.ledger.pending and row.label is not None:
                group[row.id] = row.label
            else:
                self.results.append(self._not_learned(row.id, row.label))
        self._learn(group)

    def _not_learned(self, id: str, label: Any) -> Result:
        done = self.ledger.answered.get(id)
        if done is None and id not in self.ledger.pending:
            text = "no such event: it was never asked about, or is older than what is kept"
            return _outcome(id, label, answers.UNKNOWN, text)
        if label is None:
            return _outcome(id, None, answers.REFUSED, "the label is missing; give one, or none at all")
        assert done is not None
        if done.answer == GIVEN_UP:
            return _outcome(id, label, answers.GIVEN_UP, "it came too late: the event was given up")
        before = plain(self.member().classes_[done.answer])
        if before == label:
            return _outcome(id, label, answers.ALREADY)
        return _outcome(id, label, answers.CONFLICT, f"{before!r} was learned for it before; nothing was changed")

    def _learn(self, group: dict[str, Any]) -> None:
        """Together if none is refused, else one by one."""
        if not group:
            return
        member, pending = self.member(), self.ledger.pending
        try:
            member.learn(np.stack([pending[id].x for id in group]), list(group.values()))
        except InputError as error:
            if len(group) == 1:
                (id, label), *_ = group.items()
                self.results.append(_outcome(id, label, answers.REFUSED, str(error)))
                return
            for id, label in group.items():
                self._learn({id: label})
            return
        for id, label in group.items():
            event = pending.pop(id)
            code = int(member.clf.code_of(label))
            self.ledger.answered[id] = event.answered(code)
            self.results.append(Result(LABEL, id, label, None, answers.LEARNED, event.code == code))
        self.learned = self.changed = True

    def give_up(self) -> None:
        """The events that waited too long, or are too many; their rows are used without a label."""
        timeout, pending = self.settings.timeout_ms, self.ledger.pending
        excess = len(pending) - self.settings.max_pending
        late = [
            id
            for i, (id, event) in enumerate(pending.items())
            if i < excess or (timeout is not None and self.now - event.asked >= timeout)
        ]
        if late:
            self.member().learn(np.stack([pending[id].x for id in late]), [None] * len(late))
            for id in late:
                self.ledger.answered[id] = pending.pop(id).answered(GIVEN_UP)
                self.results.append(_outcome(id, None, answers.GIVEN_UP, "no label came in time"))
            self.learned = self.changed = True
        self.ledger.forget(self.settings.keep_events)


def dead_letter(row: Given, reason: str) -> Result:
    """A row that cannot be used, and why."""
    x = None if row.x is None else [value if np.isfinite(value) else str(value) for value in row.x.tolist()]
    order = None if row.order == NO_ORDER else row.order
    about = {"kind": "instance" if row.kind == INSTANCE else "label", "order": order, "x": x, "label": row.label}
    return Result(DEAD_LETTER, row.id, text=reason, row=json.dumps(about))


def _outcome(id: str, label: Any, status: str, text: str | None = None) -> Result:
    return Result(LABEL, id, label, None, status, None, text)


def fault_of(row: Given, features: tuple[str, ...], ordered: bool) -> str | None:
    """Why a row cannot be used; None if it can."""
    if row.id is None or not 0 < len(row.id) <= LONGEST_ID:
        return f"the id is missing, or is no text of 1 to {LONGEST_ID} characters"
    if ordered and row.order == NO_ORDER:
        return f"id {row.id!r}: the order is missing"
    if row.kind == ANSWER:
        return None
    if row.x is None:
        return f"id {row.id!r}: the features are missing"
    if len(row.x) != len(features):
        return f"id {row.id!r}: a row of {len(row.x)} features, the base has {len(features)}; send rows of its width"
    bad = np.flatnonzero(~np.isfinite(row.x))
    if len(bad):
        names = ", ".join(features[i] for i in bad[:3].tolist())
        return f"id {row.id!r}: missing or not finite: {names}; fill it before, or leave the row out"
    return None
