"""The spaces and local heads of a model as they are made: settings, arrays, the names of their heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.linalg import upper_of
from hedgerow.core.moments import Moments
from hedgerow.core.source_rows import SourceRows
from hedgerow.learners.base import State
from hedgerow.learners.ridge.kept_rows import CROWD, chosen, share_of
from hedgerow.learners.ridge.maps import Map, halved
from hedgerow.learners.ridge.near import Near, NearSettings, whole
from hedgerow.learners.ridge.plan import INPUT, NEAR, SPACES, RidgePlan
from hedgerow.learners.ridge.size import Size
from hedgerow.learners.ridge.space import Settings, Space, with_own
from hedgerow.learners.ridge.sums import InSpace, Sums

MAPS = ("A", "landmarks", "axes")


@dataclass(frozen=True)
class Wanted:
    """A space that is to be made: its name, its map, and the numbers of the sources that it learns from."""

    name: str
    map: Map
    of: tuple[int, ...]


class Made:
    """The spaces as they are added."""

    def __init__(
        self, names: Sequence[str], rows: Sequence[SourceRows], pool: Array, K: int, size: Size, own: int = 0
    ) -> None:
        """`own`: columns that stand beside the spaces."""
        self.names, self.rows, self.pool, self.K, self.size, self.own = names, rows, pool, K, size, own
        self.settings: list[Settings] = []
        self.maps: list[Map] = []
        self.rooms: list[int] = []
        self.heads_of: list[int] = []
        self.heads: list[str] = []
        self.near: list[NearSettings] = []
        self.constants: State = {}
        self.state: State = {}

    def add(self, wanted: Sequence[Wanted], pooled: bool) -> None:
        """These spaces, whose sums are taken together: one pass over each source."""
        if self.size.half:
            wanted = [replace(each, map=each.map.rounded()) for each in wanted]
        found: dict[tuple[int, int], Sums] = {}
        for i, source in enumerate(self.rows):
            asked = [number for number, each in enumerate(wanted) if i in each.of]
            sums = source.totals(*(InSpace(wanted[number].map, self.K) for number in asked))
            found |= {(number, i): each for number, each in zip(asked, sums, strict=True)}
        for number, each in enumerate(wanted):
            self._add(each, [found[number, i] for i in each.of], pooled)

    def _add(self, wanted: Wanted, sums: Sequence[Sums], pooled: bool) -> None:
        settings, prefix = SPACES[wanted.name], f"space.{len(self.settings)}."
        room = self.size.pool if pooled and settings.pool else 0
        constants, state = Space.start(settings, wanted.map, sums, self.pool, self.K, room)
        if self.own and not room:
            constants |= with_own(constants["prior.P"], constants["prior.M"], self.own)
        heads = len(constants["widths"])
        own = self._names([self.names[i] for i in wanted.of])
        own += ["target only"] if heads > len(own) else []
        self.settings.append(settings)
        self.maps.append(Map(*(constants.get(key) for key in MAPS)))
        self.rooms.append(room)
        self.heads_of.append(heads)
        self.heads.extend(f"{wanted.name}: {head}" for head in own)
        constants["prior.P"] = upper_of(constants["prior.P"])
        if self.size.half:
            constants |= {key: halved(A) for key, A in constants.items() if key in MAPS and A.dtype == np.float32}
        self.constants |= {prefix + key: array for key, array in constants.items()}
        self.state |= {prefix + key: array for key, array in state.items()}

    @staticmethod
    def _names(own: Sequence[str]) -> list[str]:
        return ["all sources", *own] if len(own) > 1 else list(own)

    def add_near(self, names: Sequence[str], seed: int, moments: Sequence[Moments]) -> None:
        """Local heads, which keep the same rows in every space."""
        cap, rng = self.size.source_rows_for(self.pool.shape[1]), np.random.default_rng(seed)
        share = share_of(cap, sum(int((each.class_counts > 0).sum()) for each in moments))
        crowds = [source.crowd(CROWD * share, rng) for source in self.rows]
        codes = [np.asarray(crowd.codes) for crowd in crowds]
        found = chosen([crowd.X for crowd in crowds], codes, [crowd.weight for crowd in crowds], cap, rng)
        rows = np.concatenate([crowd.X for crowd in crowds])[found.rows]
        domains = np.repeat(np.arange(len(crowds)), [len(crowd.X) for crowd in crowds])
        known = [settings.name for settings in self.settings]
        dims = []
        for i, name in enumerate(names):
            space, sharpness = NEAR[name]
            wide = space == "input" and rows.shape[1] > self.size.near and "free" in known
            of = known.index("free") if wide else known.index(space) if space in known else INPUT
            mapping = self.maps[of] if of != INPUT else Map()
            self.near.append(NearSettings(name, of, sharpness))
            self.constants[f"near.{i}.rows"] = whole(mapping(rows))
            dims.append(self.constants[f"near.{i}.rows"].shape[1])
            self.heads.extend(f"{name}: {head}" for head in self._names(self.names))
        self.constants["near.y"] = np.concatenate(codes)[found.rows]
        self.constants["near.domain"] = domains[found.rows]
        self.constants["near.weight"] = found.weight
        self.state |= {f"near.{key}": array for key, array in Near.empty(dims).items()}

    def plan(self, steps: tuple[str, ...], axes: bool) -> RidgePlan:
        """What was added, as a plan."""
        maps = ["+".join(key for key in ("landmarks", "A", "axes") if key in each.arrays()) for each in self.maps]
        return RidgePlan(
            steps,
            tuple(self.settings),
            tuple(maps),
            tuple(self.rooms),
            tuple(self.heads_of),
            tuple(self.heads),
            tuple(self.near),
            self.size.target_rows,
            axes,
        )
