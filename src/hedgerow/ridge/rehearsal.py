"""Before the first label of a table: each source plays the target once, and the heads that were right then weigh more.

A model of the other sources predicts the rows of one (of one fold, where there is one source only) without any label.
From the log-losses of its heads follow

- whether rows are brought to unit length after their columns were scaled, where the steps are the method's own;
- the weights of the experts before the first label, as if each had had `WORTH` such labels, within `FARTHEST`;
- the first shares of the tracker's members, likewise.

The bound of the mixture keeps its form: its weights are those before the first label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax

from hedgerow.core.arrays import Array, dense
from hedgerow.core.source_rows import InMemory, Part
from hedgerow.kernels import TEMPERATURES
from hedgerow.ridge.trees import sampled

if TYPE_CHECKING:
    from hedgerow.methods import Built, Training

ROWS = 300  # of a source that are looked at
PLAYS = 3  # sources, or folds of one, that play the target
WORTH, FARTHEST = 20.0, 9.0  # labels that the evidence is worth, and the most that it takes from a log-weight
SURE = 0.02  # lower mean log-loss that it takes to leave unit length out
LEAST = -12.0  # log of a probability


@dataclass(frozen=True)
class Evidence:
    """Mean log-losses without labels: at each temperature, by kind of head and whether it is the one of all sources;
    of the heads' average; and of the class frequencies."""

    heads: dict[tuple[str, bool], Array]
    average: float
    chance: float
    note: str = ""

    def of(self, head: str) -> Array:
        """Of a head by its name; one that did not play is taken for another of its kind, or for chance."""
        kind, of = head.split(": ", 1)
        chance = np.full(TEMPERATURES, self.chance)
        if of == "target only":
            return chance
        every = of == "all sources"
        return self.heads.get((kind, every), self.heads.get((kind, not every), chance))

    def best(self, kinds: Sequence[str] = ()) -> float:
        """Of the best head and temperature, but for some kinds."""
        return min(float(losses.min()) for (kind, _), losses in self.heads.items() if kind not in kinds)

    def weights(self, heads: Sequence[str]) -> tuple[Array, Array]:
        """What is added to the log-weights of the experts (heads x temperatures), and the tracker's first shares."""
        losses = np.concatenate([self.of(head) for head in heads])
        members = np.array([losses.min(), self.chance, losses.min(), self.average])
        added, log_shares = (-np.minimum(WORTH * (each - each.min()), FARTHEST) for each in (losses, members))
        return added, np.exp(log_shares) / np.exp(log_shares).sum()


Build = Callable[["Training"], "Built"]


def with_options(training: Training, steps: Sequence[str] | None = None, **options: Any) -> Training:
    """With other options."""
    reading = training.options.reading
    reading = reading if steps is None else replace(reading, preprocess=tuple(steps))
    return replace(training, options=replace(training.options, reading=reading, **options))


def plays_of(training: Training, own: int) -> list[tuple[list[str], list[Part], Part]]:
    """Names and rows of the sources that stay, and rows of the one that plays the target; rows without target-only
    columns."""
    rng, names = np.random.default_rng(training.options.seed), list(training.names)
    parts = []
    for source in training.rows:
        part = sampled(source, ROWS if len(names) > 1 else ROWS * PLAYS, rng)
        parts.append(Part(dense(part.X)[:, : source.width - own], part.codes, part.weight))
    if len(parts) > 1:
        others = [[j for j in range(len(parts)) if j != i] for i in range(min(len(parts), PLAYS))]
        return [([names[j] for j in of], [parts[j] for j in of], parts[i]) for i, of in enumerate(others)]
    fold = rng.permutation(len(parts[0].X)) % PLAYS
    return [(names, [_some(parts[0], fold != i)], _some(parts[0], fold == i)) for i in range(PLAYS)]


def _some(part: Part, rows: Array) -> Part:
    return Part(part.X[rows], np.asarray(part.codes)[rows], None if part.weight is None else part.weight[rows])


def played(
    plays: Sequence[tuple[list[str], list[Part], Part]], training: Training, steps: Sequence[str], build: Build
) -> Evidence:
    """The losses of all plays behind these steps."""
    losses: dict[tuple[str, bool], list[Array]] = {}
    average = []
    for names, parts, target in plays:
        rows = [InMemory(part.X, part.codes, part.weight) for part in parts]
        warmup = target.X if training.warmup.shape[0] else target.X[:0]
        learner = build(
            with_options(replace(training, names=names, rows=rows, warmup=warmup, positions=()), steps)
        ).learner
        F, y = learner.expert_scores(target.X)[:, :-1], np.asarray(target.codes)
        for i, head in enumerate(learner.expert_names[:-1]):
            kind, of = head.split(": ", 1)
            if of != "target only":
                at = [_loss(2.0**c * F[:, i], y, target.weight) for c in range(1, TEMPERATURES + 1)]
                losses.setdefault((kind, of == "all sources" or len(names) == 1), []).append(np.array(at))
        average.append(_loss(4.0 * F.mean(axis=1), y, target.weight))
    means = {key: np.mean(each, axis=0) for key, each in losses.items()}
    return Evidence(means, float(np.mean(average)), float(np.log(training.K)))


def _loss(scores: Array, y: Array, weight: Array | None) -> float:
    logs = log_softmax(scores, axis=1)[np.arange(len(y)), y]
    return float(-np.average(np.maximum(logs, LEAST), weights=weight))
