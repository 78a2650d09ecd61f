"""Streams on which the paper's Theorem 1 is false, and on which the guarantees that are proved hold.

| stream            | experts                                             | what it breaks                             |
|-------------------|-----------------------------------------------------|--------------------------------------------|
| `loud_expert`     | one always wrong and loud, one right and quiet      | Theorem 1 for summed scores, without limit |
| `split_vote`      | two that never agree, labels against the prediction | Theorem 1 for votes and for equal scores   |
| `learned_experts` | as the first, but trained on rows: HomOTL-ODDM      | Theorem 1 for the method itself            |

Each runs every way of combining the same scores, so that one figure can show them beside the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.experiment.classifiers import classifier
from hedgerow.mix import Hedge, LogLoss, LossBased, Mixer, horizon_beta
from hedgerow.paper.theory import CLAIMS, ROUNDING, theorem_beta, theorem_bound

C = 5.0  # the paper's aggressiveness


@dataclass(frozen=True)
class Example:
    """A stream of expert scores, and what each way of combining them makes of it.

    `mistakes` (cumulative, one curve a combination: "scores" is the paper's, then "vote", "simplex", "log-loss")
    stands beside `bounds`, the claims of `hedgerow.paper.theory` for the whole stream; `weighted_loss` is Hedge's.
    """

    title: str
    beta: float
    best: int
    mistakes: dict[str, Array]
    weighted_loss: Array
    bounds: dict[str, float]

    def value(self, claim: str) -> float:
        """What the claim bounds, at the end of the stream; a claim of no combination's own is put to the paper's."""
        if CLAIMS[claim].bounds == "weighted loss":
            return float(self.weighted_loss[-1])
        return float(self.mistakes[claim if claim in self.mistakes else "scores"][-1])

    @property
    def breaks(self) -> list[str]:
        """The claims that are false on this stream."""
        return [claim for claim, bound in self.bounds.items() if self.value(claim) > bound + ROUNDING]


def loud_expert(ratio: float, best: int = 0, beta: float | None = None, rounds: int = 200) -> Example:
    """One expert is always wrong, with scores `ratio` times those of the other, which errs in the first `best` rounds.

    The sum of scores follows the loud expert while ratio beta^j >= 1, j being its mistakes beyond `best`. It errs

        M = M_min + floor(ln ratio/ln(1/beta)) + 1

    times: no bound in M_min, N and beta alone can hold. With the Theorem's own beta, any ratio above
    e^{1.5 ln 2} = 2.83 is enough once M_min is large. For M_min = 0 that beta is 0; then the default is
    sqrt T/(sqrt T + sqrt ln 2), as in the experiments, and the printed bound is ln 2 < 1, which the first mistake
    breaks, whatever beta is.

    >>> example = loud_expert(ratio=4, best=25)
    >>> example.value("theorem"), round(example.bounds["theorem"], 1), example.breaks
    (35.0, 31.9, ['theorem', 'step'])
    """
    if not ratio >= 1 or not 0 <= best < rounds:
        raise InputError(f"ratio={ratio}, best={best}, rounds={rounds}: needs ratio >= 1 and 0 <= best < rounds")
    F = np.zeros((rounds, 2, 2))
    F[:, 0, 0] = ratio
    F[:best, 1, 0] = 1.0
    F[best:, 1, 1] = 1.0
    title = f"one expert {ratio:g} times as loud as the other"
    return _example(title, F, np.ones(rounds, dtype=np.int64), beta or _beta(best, rounds))


def split_vote(best: int, beta: float | None = None) -> Example:
    """Two experts that never agree, and a label that is never the one predicted: M = T = 2 M_min + 1.

    2 M_min + 1 > M_min + 3/2 sqrt(M_min ln 2) + ln 2 for every whole M_min: Theorem 1 is false for the vote, and for
    scores of equal size, with any beta; its proof lacks a factor 2. No deterministic rule does better if the labels are
    chosen against it in this way. The default beta is the Theorem's (for M_min = 0 the experiments').

    >>> example = split_vote(best=25)
    >>> example.value("vote"), round(example.bounds["theorem"], 1), round(example.bounds["vote"], 1)
    (51.0, 31.9, 61.4)
    """
    if best < 0:
        raise InputError(f"best={best}: the best expert cannot make fewer than no mistakes")
    rounds = 2 * best + 1
    labels = np.ones(rounds, dtype=np.int64)
    labels[1::2] = 0  # a tie goes to class 0, otherwise the expert with one mistake less decides
    return _example(
        "two experts that never agree", np.tile(np.eye(2), (rounds, 1, 1)), labels, beta or _beta(best, rounds)
    )


def learned_experts(ratio: float, rounds: int = 30) -> Example:
    """`loud_expert` with classifiers in place of scripted scores: HomOTL-ODDM on one source, with the Theorem's beta.

    The source's rows have length 1/ratio (and are repeated until PA-I with C = 5 has learned them), so a classifier
    with margin 1 on them has margin `ratio` on the target's, which are of unit length and carry the other label. The
    online classifier errs once, so M_min = 1, and ODDM errs 2 + floor(ln ratio/ln(1/beta)) times.
    `mistakes["oddm"]` is counted by the learner itself.

    >>> example = learned_experts(ratio=100)
    >>> example.value("theorem"), round(example.bounds["theorem"], 2), example.breaks
    (9.0, 2.94, ['theorem', 'step'])
    """
    x, beta = np.array([1.0, 0.0]), theorem_beta(1, 2)
    copies = 1 + int(ratio**2 / (4 * C))  # each row adds at most 2C/ratio to the margin at x
    source = Domain("source", np.tile([x / ratio, -x / ratio], (copies, 1)), np.tile([0, 1], copies))
    clf = classifier(
        "oddm", "paper", aligner="identity", preprocess=(), tau="original", source_pass="last", C=C, beta=beta,
        refresh_every=rounds + 1,
    ).fit_domains([source])  # fmt: skip
    F, counted = np.empty((rounds, 2, 2)), np.empty(rounds, dtype=np.int64)
    for t in range(rounds):
        F[t] = clf.learner_.expert_scores(x[None])[0]
        clf.learn_one(x, 1)
        counted[t] = clf.mistakes_
    example = _example("HomOTL-ODDM with a misleading source", F, np.ones(rounds, dtype=np.int64), beta)
    example.mistakes["oddm"] = counted
    return example


def _beta(best: int, rounds: int) -> float:
    return theorem_beta(best, 2) or horizon_beta(rounds, 2)


def _example(title: str, F: Array, y: Array, beta: float) -> Example:
    """Run every mixer over the same scores (T x N x K) and labels."""
    T, N = F.shape[:2]
    mixers: dict[str, Mixer] = {
        "scores": Hedge(beta),
        "vote": Hedge(beta, "vote"),
        "simplex": LossBased(),
        "log-loss": LogLoss(),
    }
    states = {name: mixer.start(N) for name, mixer in mixers.items()}
    mixed = {name: mixer.run(states[name], 0, F, y) for name, mixer in mixers.items()}
    own = {name: mixer.bound(states[name], T) for name, mixer in mixers.items()}
    best = int(states["scores"]["expert_loss"].min())
    printed, step = theorem_bound(best, N), own.pop("scores")
    return Example(
        title,
        beta,
        best,
        {name: np.cumsum(m.scores.argmax(axis=1) != y) for name, m in mixed.items()},
        np.cumsum((mixed["scores"].weights * mixed["scores"].losses).sum(axis=1)),
        {"theorem": printed, "theorem, loss": printed, "step": step, "hedge": step, **own},
    )
