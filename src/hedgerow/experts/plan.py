"""What a learner of experts is made of, fixed before the stream starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.core.constants import UNSEEN
from hedgerow.core.errors import InputError
from hedgerow.core.moments import KAPPA
from hedgerow.core.preprocess import parse
from hedgerow.core.registry import of_json
from hedgerow.heads import HEADS, Head, make_head
from hedgerow.methods import ANSWERS
from hedgerow.mix import MIXERS, Mixer


@dataclass(frozen=True)
class Expert:
    """A classifier in a space; a frozen one keeps what a source taught it."""

    name: str
    space: int
    learns: bool


@dataclass(frozen=True)
class Refresh:
    """How the projections follow the labels: every `every` labels (T_w), with strength mu; see `moments.gap`."""

    every: int = 10
    mu: float = 1.0
    unseen: str = "zero"
    inverse: str = "woodbury"
    kappa: float = KAPPA

    def __post_init__(self) -> None:
        if self.every < 1 or not self.mu >= 0 or not self.kappa > 0 or self.unseen not in UNSEEN:
            raise InputError(f"{self}: every must be at least 1, mu not negative, kappa positive, unseen a known rule")
        if self.inverse not in ANSWERS["inverse"]:
            raise InputError(f"inverse={self.inverse!r}: use one of {', '.join(ANSWERS['inverse'])}")


@dataclass(frozen=True)
class Plan:
    """The composition: preprocessing, experts (frozen ones first), their head, how they are mixed, the refresh.

    `spaces` is their number, or 0 for the input itself; `gammas` are those of kernel spaces, None for a quadratic one.
    """

    steps: tuple[str, ...]
    experts: tuple[Expert, ...]
    head: Head
    mixer: Mixer
    unit_projection: bool
    spaces: int = 0
    gammas: tuple[float | None, ...] = ()
    refresh: Refresh | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        out = {name: getattr(self, name) for name in ("steps", "unit_projection", "spaces", "gammas")}
        return out | {
            "experts": [asdict(expert) for expert in self.experts],
            "head": HEADS.to_json(self.head),
            "mixer": MIXERS.to_json(self.mixer),
            "refresh": None if self.refresh is None else asdict(self.refresh),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse of `to_json`."""
        plan = cls(
            steps=parse(data["steps"], internal=True),
            experts=tuple(of_json(Expert, expert) for expert in data["experts"]),
            head=make_head(HEADS.from_json(data["head"])),
            mixer=MIXERS.from_json(data["mixer"]),
            unit_projection=bool(data["unit_projection"]),
            spaces=int(data["spaces"]),
            gammas=tuple(None if g is None else float(g) for g in data["gammas"]),
            refresh=None if data["refresh"] is None else of_json(Refresh, data["refresh"]),
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Refuse a plan whose parts do not fit together."""
        learns = [expert.learns for expert in self.experts]
        if not self.experts or not any(learns) or learns != sorted(learns):
            raise InputError("a plan needs at least one online expert, after all frozen ones")
        if any(not 0 <= expert.space < max(self.spaces, 1) for expert in self.experts):
            raise InputError(f"an expert lives in a space beyond the {self.spaces} that there are")
        if self.gammas and (len(self.gammas) != self.spaces or self.refresh is not None):
            raise InputError("kernel spaces need a gamma each, and cannot be refreshed")
        if self.refresh is not None and not self.spaces:
            raise InputError("a refresh needs spaces to move")
        if any(g is not None and not g > 0 for g in self.gammas):
            raise InputError("a kernel's gamma must be positive")

    @property
    def frozen(self) -> int:
        """How many experts do not learn."""
        return sum(not expert.learns for expert in self.experts)
