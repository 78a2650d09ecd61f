"""Local heads: the labels of close rows vote, exp(g (cos - 1)) each; rows of the sources count TRUST of a target's row.

One head hears all sources, and one each source alone; the target's rows are heard by all. The rows are kept, so there
are bounds: of the sources, rows chosen once (`ridge/build.py`), shared by all models; of the target the newest,
so that old ones are forgotten. A kept row is a unit vector in whole numbers (11 bits, in 16).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.preprocess import unit
from hedgerow.kernels import SCALE

TRUST = 0.3
FIRST_ROOM = 16  # places for the target's rows at first; they double


@dataclass(frozen=True)
class NearSettings:
    """A kind of local heads: the number of the space whose rows are compared, and how fast a vote falls."""

    name: str
    of: int
    sharpness: float


def whole(Z: Array) -> Array:
    """Rows as unit vectors in whole numbers.

    >>> whole(np.array([[3.0, 4.0]])).tolist()
    [[1229, 1638]]
    """
    return np.asarray(np.rint(SCALE * unit(Z)), np.int16)


class Near:
    """The kept rows in all spaces that have local heads. Names of arrays are those of `ridge/learner.py`."""

    def __init__(
        self,
        settings: Sequence[NearSettings],
        constants: Mapping[str, Array],
        state: Mapping[str, Array],
        room: int,
        heads: int,
    ) -> None:
        """`room`: rows of the target that are kept; `heads`: of each kind, one for all sources and one for each."""
        self.settings, self.room, self.heads = settings, room, heads
        self.sources = [constants[f"{i}.rows"] for i in range(len(settings))]
        self.y, self.domain, self.weight = constants["y"], constants["domain"], constants["weight"]
        self.kept = [state[f"{i}.rows"] for i in range(len(settings))]
        self.kept_y, self.kept_weight = state["y"], state["weight"]
        self.used, self.at = len(self.kept_y), int(state["at"][0])

    @staticmethod
    def empty(dims: Sequence[int]) -> dict[str, Array]:
        """The state before any label."""
        state = {f"{i}.rows": np.zeros((0, d), np.int16) for i, d in enumerate(dims)}
        return state | {"y": np.zeros(0, np.int64), "weight": np.zeros(0), "at": np.zeros(1, np.int64)}

    def arrays(self) -> dict[str, Array]:
        """The state by short names."""
        found = {f"{i}.rows": rows[: self.used] for i, rows in enumerate(self.kept)}
        found |= {"y": self.kept_y[: self.used], "weight": self.kept_weight[: self.used]}
        return found | {"at": np.array([self.at])}

    def say(self, Q: Sequence[Array], K: int) -> Array:
        """What all local heads say of rows that are not learned (B x heads x K)."""
        nobody = np.full(len(Q[0]), -1)
        return self._votes(Q, nobody, np.ones(len(nobody)), K)

    def run(self, Q: Sequence[Array], y: Array, weight: Array, K: int, before: Array | None = None) -> Array:
        """The same before each label; labelled rows are kept. `before` is what `say` said of one row, if known."""
        labelled = np.flatnonzero(y >= 0)
        self._make_room(len(labelled))
        V = self._votes(Q, y, weight, K) if before is None else before
        if len(labelled) == len(y) == 1:  # the usual step of a stream
            for rows, new in zip(self.kept, Q, strict=True):
                rows[self.at] = new[0]
            self.kept_y[self.at], self.kept_weight[self.at] = y[0], weight[0]
            self.used, self.at = max(self.used, self.at + 1), (self.at + 1) % self.room
            return V
        places = (self.at + np.arange(len(labelled))) % max(len(self.kept_y), 1)
        for rows, new in zip(self.kept, Q, strict=True):
            rows[places] = new[labelled]
        self.kept_y[places], self.kept_weight[places] = y[labelled], weight[labelled]
        self.used = min(self.used + len(labelled), len(self.kept_y))
        self.at = (self.at + len(labelled)) % self.room
        return V

    def _votes(self, Q: Sequence[Array], y: Array, weight: Array, K: int) -> Array:
        from hedgerow.kernels.near import near_row, near_rows, products

        B, heads = len(y), self.heads
        V = np.empty((B, len(self.settings) * heads, K))
        for i, settings in enumerate(self.settings):
            if B == 1:
                near_row(
                    self.sources[i], self.y, self.domain, self.weight, self.kept[i], self.kept_y, self.kept_weight,
                    self.used, Q[i][0], settings.sharpness, TRUST, V[0, i * heads : (i + 1) * heads],
                )  # fmt: skip
                continue
            D = [products(rows, Q[i]) for rows in (self.sources[i], self.kept[i][: self.used], Q[i])]
            said = np.empty((B, heads, K))
            near_rows(
                D[0], self.y, self.domain, self.weight, D[1], D[2], self.kept_y.copy(), self.kept_weight.copy(),
                self.used, self.at, y, weight, settings.sharpness, TRUST, said,
            )  # fmt: skip
            V[:, i * heads : (i + 1) * heads] = said
        return V

    def _make_room(self, rows: int) -> None:
        """Places for so many more rows, doubled until there are `room`."""
        have, need = len(self.kept_y), min(self.used + rows, self.room)
        if need <= have:
            return
        places = min(max(need, 2 * have, FIRST_ROOM), self.room)
        more = places - have
        self.kept = [np.pad(rows, ((0, more), (0, 0))) for rows in self.kept]
        self.kept_y, self.kept_weight = np.pad(self.kept_y, (0, more)), np.pad(self.kept_weight, (0, more))
