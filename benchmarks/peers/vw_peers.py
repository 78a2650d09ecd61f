"""Vowpal Wabbit: one against all."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.peer import REASONABLE, SOURCES, TARGET, Entry, Peer, one_hot


class Vowpal(Peer):
    row_by_row = True

    def __init__(self, options: str, K: int) -> None:
        from vowpalwabbit import Workspace

        self.probabilistic = "--probabilities" in options
        self.K, self.vw = K, Workspace(f"--oaa {K} {options} --quiet")

    def form(self, x: np.ndarray) -> str:
        return "| " + " ".join(f"{i}:{value:.9g}" for i, value in enumerate(x.tolist()) if value)

    def predict(self, row: str) -> np.ndarray:
        found: Any = self.vw.predict(row)
        return np.asarray(found) if self.probabilistic else one_hot(found - 1, self.K)

    def learn(self, row: str, code: int) -> None:
        self.vw.learn(f"{code + 1} {row}")


def vowpal(setting: str, K: int, m: int) -> Peer:
    """Reasonable: logistic loss, with probabilities, and larger steps because the rows have unit length."""
    return Vowpal("--loss_function logistic --probabilities -l 2" if setting == REASONABLE else "", K)


PEERS = {"VW --oaa": Entry("vowpalwabbit", vowpal, (SOURCES, TARGET))}
