"""Heads of the user's own models: what each says of a row, and the same adapted to the target's labels.

Adapted: softmax(a_k log p_k + b_k), a temperature and an offset a class, which an online Newton step a label learns
(`kernels/ridge.py`). They start at 1 and 0, and at a ridge that has them leave that slowly.

| state     | shape         | what it is                                        |
|-----------|---------------|---------------------------------------------------|
| `given.a` | models x K x 2 | temperature and offset of each class              |
| `given.H` | models x K x 2 x K x 2 | their curvature, of which a half is kept  |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import Spec
from hedgerow.learner import State

RIDGE = (10.0, 3.0)  # of temperature and offset


@dataclass(frozen=True)
class GivenModel:
    """A model by its name, and the class of each number that it says of a row; below 0 for none."""

    name: str
    codes: tuple[int, ...]

    @property
    def heads(self) -> list[str]:
        """Its heads by name."""
        return [f"expert: {self.name}", f"expert, adapted: {self.name}"]


def start(models: int, K: int) -> State:
    """The state before any label."""
    a = np.zeros((models, K, 2))
    a[..., 0] = 1.0
    H = np.zeros((models, K, 2, K, 2))
    every = np.arange(K)
    for i, ridge in enumerate(RIDGE):
        H[:, every, i, every, i] = ridge
    return {"a": a, "H": H}


class Adapted:
    """The heads of all models. `state` is taken over."""

    def __init__(self, models: Sequence[GivenModel], state: Mapping[str, Array]) -> None:
        self.codes = [np.array(each.codes, np.int64) for each in models]
        self.state = {"a": state["a"], "H": state["H"]}

    def scores(self, logs: Array, y: Array) -> Array:
        """What the heads say of rows in order (rows x heads x K), whose labels >= 0 are learned."""
        from hedgerow.kernels.ridge import given_room, given_scores

        a = self.state["a"]
        H = self.state["H"]
        K = a.shape[1]
        said = [np.empty((len(logs), 2, K)) for _ in self.codes]
        work = np.empty(given_room(K))
        begin = 0
        for i, codes in enumerate(self.codes):
            own = np.ascontiguousarray(logs[:, begin : begin + len(codes)])
            given_scores(own, codes, a[i].reshape(-1), H[i].reshape(2 * K, 2 * K), y, said[i], work)
            begin += len(codes)
        return np.concatenate(said, axis=1)

    def grown(self, extra: int) -> State:
        """The state with room for new classes."""
        K = self.state["a"].shape[1]
        state = start(len(self.codes), K + extra)
        state["a"][:, :K] = self.state["a"]
        state["H"][:, :K, :, :K] = self.state["H"]
        return state


def specs(models: int) -> dict[str, Spec]:
    """Shape, type and range of the state."""
    return {"a": Spec((models, "K", 2)), "H": Spec((models, "K", 2, "K", 2))}
