"""Which spaces our own learner has, by name, and what a model of it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.core.json_values import is_of, of_json
from hedgerow.core.preprocess import parse
from hedgerow.learners.ridge.space import Settings

SPACES = {
    "kernel": Settings("kernel", lam=0.1, trust=0.3, tau=0.0, pool=0.3),
    "white": Settings("white", lam=0.5, trust=0.3, tau=0.5, class_targets=True, pool=0.3, balanced=True),
    "input": Settings("input", lam=0.5, trust=0.3, tau=0.05),
    "free": Settings("free", lam=3.0, trust=0.1, tau=2.0, target_only=True),
    "pca": Settings("pca", lam=1.0, trust=0.3, tau=0.0),
    "recent": Settings("recent", lam=1.0, trust=0.0, tau=3.0, keep=0.85),
}
FREQUENCIES = "class frequencies"


@dataclass(frozen=True)
class RidgePlan:
    """The spaces in order, how many heads each has, and whether it has a pool; the names of all heads.

    `maps` says how each space maps its rows: "" (not at all), "A", "H" or "landmarks"; see `ridge/maps.py`.
    """

    steps: tuple[str, ...]
    spaces: tuple[Settings, ...]
    maps: tuple[str, ...]
    pooled: tuple[bool, ...]
    heads_of: tuple[int, ...]
    heads: tuple[str, ...]
    axes: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RidgePlan:
        """The inverse of `to_json`."""
        kinds = {"maps": str, "pooled": bool, "heads_of": int, "heads": str, "steps": str}
        for name, kind in kinds.items():
            if not isinstance(data[name], list | tuple) or not all(is_of(item, kind) for item in data[name]):
                raise TypeError(f"{name}={data[name]!r} cannot stand there")
        plan = cls(
            steps=parse(data["steps"]),
            spaces=tuple(of_json(Settings, settings) for settings in data["spaces"]),
            axes=bool(data["axes"]),
            **{name: tuple(data[name]) for name in ("maps", "pooled", "heads_of", "heads")},
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Refuse a plan whose parts do not fit together."""
        n = len(self.spaces)
        if not n or not len(self.maps) == len(self.pooled) == len(self.heads_of) == n:
            raise InputError("each space needs a map, a pool or none, and heads")
        if sum(self.heads_of) != len(self.heads) or min(self.heads_of) < 1:
            raise InputError(f"{len(self.heads)} names for {sum(self.heads_of)} heads")
        for settings, kind in zip(self.spaces, self.maps, strict=True):
            if kind not in ("", "A", "H", "landmarks", "landmarks+A"):
                raise InputError(f"unknown map {kind!r}")
            sane = settings.lam > 0 and settings.trust >= 0 and settings.tau >= 0 and settings.pool >= 0
            if not (sane and 0 < settings.keep <= 1):
                raise InputError(f"{settings} cannot be a space")
