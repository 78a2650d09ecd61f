"""What a peer is: something that predicts a row, then sees its label; with sources in advance or without.

A peer has its package's own defaults ("default", the input standardised by the sources) and one reasonable setting
("reasonable", the input map of our learner and the few options that somebody who knows the package would set for rows
of unit length).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from peers.streams import Stream

DEFAULT, REASONABLE = "default", "reasonable"
SOURCES, TARGET = "sources", "target"


class Peer:
    """Predicts, then learns. Rows are brought into the package's own form (`form`) outside the clock."""

    row_by_row = False  # the sources are learned one by one, by `learn`, as the stream is
    probabilistic = True  # what `predict` gives can be read as probabilities

    def fit(self, stream: Stream) -> None:
        """Learn the sources, and look at the unlabelled rows of the target, at once."""

    def form(self, x: np.ndarray) -> Any:
        """A row as the package wants it."""
        return x

    def predict(self, row: Any) -> np.ndarray | None:
        """A score for each class; None where there is none yet, which counts as a mistake."""
        raise NotImplementedError

    def learn(self, row: Any, code: int) -> None:
        """The label of the row just predicted."""
        raise NotImplementedError


@dataclass(frozen=True)
class Entry:
    """A line of the comparison: how a peer is made for a setting, K classes and m features."""

    package: str  # as pip calls it
    make: Callable[[str, int, int], Peer]
    trainings: tuple[str, ...] = (SOURCES,)
    settings: tuple[str, ...] = (DEFAULT, REASONABLE)
    needs: str = ""  # module that must be there, if it is not called as the package
    slow: bool = False
    own_map: bool = False  # it maps its input itself

    @property
    def module(self) -> str:
        """What is imported to see whether the package is there."""
        return self.needs or self.package


def one_hot(code: int, K: int) -> np.ndarray:
    """All on one class."""
    p = np.zeros(K)
    p[int(code)] = 1
    return p
