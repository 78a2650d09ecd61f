"""Which spaces our own learner has, by name, and what a model of it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import own_width, parse
from hedgerow.core.registry import is_of, of_json
from hedgerow.ridge.near import NearSettings
from hedgerow.ridge.space import Settings

SPACES = {
    "kernel": Settings("kernel", lam=0.1, trust=0.3, tau=0.0),
    "white": Settings("white", lam=0.5, trust=0.3, tau=0.5, class_targets=True, pool=0.3, balanced=True),
    "input": Settings("input", lam=0.5, trust=0.3, tau=0.05),
    "free": Settings("free", lam=3.0, trust=0.1, tau=2.0, target_only=True),
    "pca": Settings("pca", lam=1.0, trust=0.3, tau=0.0),
    "recent": Settings("recent", lam=1.0, trust=0.0, tau=3.0, keep=0.85),
}
NEAR = {  # the space whose rows are compared, and how fast a vote falls with the distance
    "near input": ("input", 60.0),
    "near white": ("white", 40.0),
}
INPUT = -1  # in the place of a space's number: the input itself
FREQUENCIES = "class frequencies"


@dataclass(frozen=True)
class RidgePlan:
    """The spaces in order, how many heads each has, and room for how many rows in its pool; the names of all heads.

    `maps` says how each space maps its rows: "" (not at all), "A", "axes" or "landmarks"; see `ridge/maps.py`. `near`
    are the local heads, which keep at most `kept` rows of the target.
    """

    steps: tuple[str, ...]
    spaces: tuple[Settings, ...]
    maps: tuple[str, ...]
    rooms: tuple[int, ...]
    heads_of: tuple[int, ...]
    heads: tuple[str, ...]
    near: tuple[NearSettings, ...] = ()
    kept: int = 1
    axes: bool = False

    @property
    def own(self) -> int:
        """Columns that nothing is transferred for."""
        return own_width(self.steps)

    def own_in(self, i: int) -> int:
        """How many of them the rows of space i have."""
        return 0 if self.rooms[i] else self.own

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RidgePlan:
        """The inverse of `to_json`."""
        kinds = {"maps": str, "rooms": int, "heads_of": int, "heads": str, "steps": str}
        for name, kind in kinds.items():
            if not isinstance(data[name], list | tuple) or not all(is_of(item, kind) for item in data[name]):
                raise TypeError(f"{name}={data[name]!r} cannot stand there")
        if not is_of(data["kept"], int):
            raise TypeError(f"kept={data['kept']!r} cannot stand there")
        plan = cls(
            steps=parse(data["steps"]),
            spaces=tuple(of_json(Settings, settings) for settings in data["spaces"]),
            near=tuple(of_json(NearSettings, settings) for settings in data["near"]),
            kept=data["kept"],
            axes=bool(data["axes"]),
            **{name: tuple(data[name]) for name in ("maps", "rooms", "heads_of", "heads")},
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Refuse a plan whose parts do not fit together."""
        n = len(self.spaces)
        if not n or not len(self.maps) == len(self.rooms) == len(self.heads_of) == n:
            raise InputError("each space needs a map, a pool or none, and heads")
        own = len(self.heads) - sum(self.heads_of)
        if min(self.heads_of) < 1 or own < 0 or (own % len(self.near) if self.near else own) or (self.near and not own):
            raise InputError(
                f"{len(self.heads)} names for {sum(self.heads_of)} heads and {len(self.near)} kinds of near"
            )
        if self.kept < 1 or any(settings.of not in range(INPUT, n) for settings in self.near):
            raise InputError(f"{self.near} cannot be local heads")
        for settings, kind, room in zip(self.spaces, self.maps, self.rooms, strict=True):
            if kind not in ("", "A", "axes", "landmarks", "landmarks+A"):
                raise InputError(f"unknown map {kind!r}")
            sane = settings.lam > 0 and settings.trust >= 0 and settings.tau >= 0 and settings.pool >= 0
            if not (
                sane and 0 < settings.keep <= 1 and (not room or (room > 0 and settings.pool and settings.keep == 1))
            ):
                raise InputError(f"{settings} with room for {room} rows cannot be a space")
        if not all(settings.sharpness > 0 for settings in self.near):
            raise InputError(f"{self.near} cannot be local heads")
