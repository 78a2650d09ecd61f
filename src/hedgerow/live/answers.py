"""What a live model answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEARNED, ALREADY, UNKNOWN, CONFLICT, GIVEN_UP, REFUSED = (
    "learned", "already", "unknown", "conflict", "given up", "refused",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """A prediction that is in the journal. `id` is what its label is given by; `number` its place among all events.

    `repeated`: the same id was asked before, and this is what was answered then (votes and weights are not kept).
    """

    id: str
    number: int
    label: Any
    probability: float
    probabilities: dict[Any, float]
    votes: dict[str, Any] | None = None
    weights: dict[str, float] | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Labelled:
    """What became of a label.

    | status     | what it means                                                                  |
    |------------|--------------------------------------------------------------------------------|
    | `learned`  | it was learned now                                                             |
    | `already`  | the same label of this id was learned before; nothing was done                 |
    | `conflict` | another label of this id was learned before; nothing was done                  |
    | `given up` | it came too late: its features were dropped after the time-out, or for room    |
    | `unknown`  | no such id is in the journal                                                   |
    | `refused`  | the label cannot be used; `text` says why                                      |
    """

    id: str
    status: str
    label: Any
    text: str = ""
