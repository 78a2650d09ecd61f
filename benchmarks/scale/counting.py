"""What a batch asks of a worker, counted: the cost model (model.py) turns these numbers into seconds."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import Any

COUNTS = ("rows", "keys", "misses", "light", "past", "calls", "own", "made", "again")


def shape_of(fleet: Any) -> dict[str, Any]:
    """The sizes of a base that the cost of a row depends on."""
    light, base = fleet._holder.light, fleet.base
    return {
        "features": base.n_features,
        "dims": [space.dim for space in light.spaces],
        "widths": [space.targets.width for space in light.spaces],
        "kept": int(light.near_ends[-1]) if len(light.near_ends) else 0,  # numbers of 16 bits of a row, local heads
        "source_rows": len(light.near_y),
        "fixed": light.shape.fixed,
        "most": light.most,  # labels up to which a key is light
    }


class Labels:
    """Labels of each key so far, and what a batch adds; `is_missing` says which keys are not in memory."""

    def __init__(self, most: int, is_missing: Callable[[int], bool]) -> None:
        self.most, self.is_missing, self.labels = most, is_missing, dict[int, int]()
        self.visits = Tally[int]()  # batches that had rows of a key

    def before(self, keys: Sequence[int]) -> dict[str, int]:
        """Of a batch that comes next: COUNTS.

        `light`, `own`: rows of light keys and of keys with a model of their own (`calls`: how often such models
        learn some rows, `made`: such models made, of keys with too many labels to be light or that were read; one that
        is made learns what each earlier batch brought by itself).
        `own` has also the rows that a model that is made learns again, `again` those of light keys that were read.
        `past`: labels that light keys had when a row came, summed over all light rows and rows learned again.
        """
        found = dict.fromkeys(COUNTS, 0)
        found["rows"] = len(keys)
        for key, n in Tally(keys).items():
            t = self.labels.get(key, 0)
            self.labels[key] = t + n
            self.visits[key] += 1
            found["keys"] += 1
            missing = self.is_missing(key)
            found["misses"] += missing
            if missing and t + n <= self.most:
                self._again(found, t)
            if t + n <= self.most:
                found["light"] += n
                found["past"] += n * t + n * (n - 1) // 2
                continue
            new = missing or t <= self.most
            found["calls"] += self.visits[key] if new else 1
            found["made"] += new
            found["own"] += n + (t if new else 0)
        return found

    @staticmethod
    def _again(found: dict[str, int], t: int) -> None:
        found["again"] += t
        found["past"] += t * (t - 1) // 2


class Counter(Labels):
    """Of a fleet that runs; exact where a batch is learned in one part (256 rows) or no key has to leave."""

    def __init__(self, fleet: Any) -> None:
        self._holder, self._gone = fleet._holder, set[int]()
        super().__init__(fleet._holder.light.most, self._is_missing)

    def _is_missing(self, key: int) -> bool:
        return key not in self._holder.held or key in self._gone

    def before(self, keys: Sequence[int]) -> dict[str, int]:
        self._gone = set(self._holder.too_many())  # they leave before the keys of the batch are looked for
        return super().before(keys)
