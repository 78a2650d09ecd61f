"""What is promised and what happened: the paper's Theorem 1 and the guarantees that hold, beside every run.

N experts (2n of them in HomOTL-ODDM), M mistakes of the combined prediction, M_min of the best expert, L Hedge's own
weighted loss sum_t p_t . l_t, all over one stream:

| claim           | says                                             | true?                                          |
|-----------------|--------------------------------------------------|------------------------------------------------|
| `theorem`       | M <= M_min + 3/2 sqrt(M_min ln N) + ln N         | no: Theorem 1 as printed (Eq. 14)              |
| `theorem, loss` | L <= the same                                    | for beta = sqrt M_min/(sqrt M_min + sqrt ln N) |
| `step`          | M <= (M_min ln(1/beta) + ln N)/(1 - beta)        | no: the first line of its proof (Eq. 15)       |
| `hedge`         | L <= the same                                    | yes (Freund and Schapire 1997)                 |
| `vote`          | M <= (M_min ln(1/beta) + ln N)/ln(2/(1 + beta))  | yes, if votes are counted                      |
| `simplex`       | M <= 4 min_e L_e + 8 ln N                        | yes, for averaged simplex points (half-Brier)  |
| `log-loss`      | M <= (min_e L_e + ln N)/ln 2                     | yes, for the Bayes mixture                     |

Hedge's theorem is about L. A mistake of a vote means that half the weight was wrong, so M <= 2 L: the factor 2 is what
the printed proof lacks. A mistake of summed scores says nothing about the weights at all: one expert with large scores
outvotes any number of others. Streams on which Theorem 1 is false, and on which the guarantees that are proved hold:

| stream            | experts                                             | what it breaks                             |
|-------------------|-----------------------------------------------------|--------------------------------------------|
| `loud_expert`     | one always wrong and loud, one right and quiet      | Theorem 1 for summed scores, without limit |
| `split_vote`      | two that never agree, labels against the prediction | Theorem 1 for votes and for equal scores   |
| `learned_experts` | as the first, but trained on rows: HomOTL-ODDM      | Theorem 1 for the method itself            |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hedgerow.comparison.figures import Line
from hedgerow.comparison.page import Part
from hedgerow.comparison.tables import Table, Value
from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, require
from hedgerow.mix import Hedge, LogLoss, LossBased, Mixer, horizon_beta
from reproduction.figures import Panel, draw
from reproduction.runs import Runs
from reproduction.tasks import classifier
from reproduction.texts import figure, table, text

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-9  # a sum of that many weights may be this much off
C = 5.0  # the paper's aggressiveness
KEPT = ("task", "method", "variant", "split", "trial", "mistakes")  # what a claim keeps of its row
RATIO = 4.0  # the counter-examples that are drawn
BEST = 25
LEARNED_RATIO = 100.0


class Claim(NamedTuple):
    """An inequality: what it bounds ("mistakes" or "weighted loss"), by what, whether it is proved, and its title."""

    bounds: str
    formula: str
    proved: bool
    title: str


CLAIMS = {
    "theorem": Claim("mistakes", "M_min + 3/2 sqrt(M_min ln N) + ln N", False, "the Theorem, on mistakes"),
    "theorem, loss": Claim(
        "weighted loss", "M_min + 3/2 sqrt(M_min ln N) + ln N", False,
        "the Theorem's bound, on the weighted loss (with our beta, not the one it asks for)",
    ),
    "step": Claim(
        "mistakes", "(M_min ln(1/beta) + ln N)/(1 - beta)", False, "Hedge's bound for the beta used, on mistakes"
    ),
    "hedge": Claim(
        "weighted loss", "(M_min ln(1/beta) + ln N)/(1 - beta)", True,
        "Hedge's bound for the beta used, on the weighted loss",
    ),
    "vote": Claim("mistakes", "(M_min ln(1/beta) + ln N)/ln(2/(1 + beta))", True, "weighted vote"),
    "simplex": Claim("mistakes", "4 min L + 8 ln N", True, "simplex scores"),
    "log-loss": Claim("mistakes", "(min L + ln N)/ln 2", True, "log-loss mixture"),
}  # fmt: skip


def theorem_bound(best: float, experts: int) -> float:
    """M_min + 3/2 sqrt(M_min ln N) + ln N: Theorem 1 as printed (Eq. 14), N = 2n; what Eq. 16 is at its beta.

    >>> round(theorem_bound(25, 2), 2), round(theorem_bound(0, 2), 2)
    (31.94, 0.69)
    """
    return Hedge(proof="theorem").bound({"expert_loss": np.full(experts, float(best))}, 0)


def theorem_beta(best: float, experts: int) -> float:
    """sqrt M_min/(sqrt M_min + sqrt ln N), the discount that Theorem 1 asks for; 0, and so none at all, for M_min = 0.

    >>> round(theorem_beta(25, 2), 3), theorem_beta(0, 2)
    (0.857, 0.0)
    """
    return horizon_beta(best, experts) if best > 0 else 0.0


# -- what happened in the runs ----------------------------------------------------------------------------------


def bounds_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The bounds claimed for a row's mixer: Hedge's follow from its beta, a loss-based mixer states its own."""
    mistakes = np.asarray(row["expert_mistakes"], dtype=np.float64)
    T = int(row["n"])
    state = {"expert_loss": mistakes}
    beta = row["beta"]
    vote = row["options"].get("combine") == "vote"
    if beta is not None and beta == beta:
        printed = theorem_bound(float(mistakes.min()), len(mistakes))
        step = Hedge(beta).bound(state, T)
        claims = {"theorem": printed, "theorem, loss": printed, "step": step, "hedge": step}
        return claims | ({"vote": Hedge(beta, "vote").bound(state, T)} if vote else {})
    if row["options"].get("mixer") == "log-loss":
        return {"log-loss": LogLoss().bound({"expert_loss": np.asarray(row["expert_loss"])}, T)}
    if (
        row["guarantee"] != LossBased().guarantee
        or row["bound"] is None
        or row["bound"] != row["bound"]
    ):
        return {}
    return {"simplex": float(row["bound"])}


def claims_of(rows: Any) -> pd.DataFrame:
    """Every claim that can be made about a run, beside it: rows of "table" and "mixers" that mix two experts or more.

    `bounded` is what the claim bounds, `best` M_min, `broken` whether the run broke it. `rows` are dicts, or a frame.

    >>> row = {"group": "table", "task": "dslr", "method": "oddm", "variant": "", "split": 0, "trial": 0, "n": 110,
    ...     "mistakes": 30, "expert_mistakes": [21, 40], "expert_loss": [21, 40], "hedge_loss": 25.5, "beta": 0.9,
    ...     "bound": 29.1, "guarantee": "", "options": {}}
    >>> claims_of([row])[["claim", "bounded", "bound", "broken"]].round(1).to_numpy().tolist()
    [['theorem', 30.0, 27.4, True], ['theorem, loss', 25.5, 27.4, False], ['step', 30.0, 29.1, True],
     ['hedge', 25.5, 29.1, False]]
    """
    pandas = require("pandas", "lab")
    frame = pandas.DataFrame(rows)
    records = []
    for row in frame[frame["group"].isin(("table", "mixers"))].to_dict("records"):
        if len(row["expert_mistakes"]) > 1:
            key = {name: row[name] for name in KEPT}
            for claim, bound in bounds_of(row).items():
                value = float(
                    row["mistakes" if CLAIMS[claim].bounds == "mistakes" else "hedge_loss"]
                )
                records.append(
                    {
                        **key,
                        "claim": claim,
                        "best": int(min(row["expert_mistakes"])),
                        "bounded": value,
                        "bound": bound,
                    }
                )
    made = pandas.DataFrame(records, columns=[*KEPT, "claim", "best", "bounded", "bound"])
    made["broken"] = made["bounded"] > made["bound"] + ROUNDING
    made["nearest"] = made["bounded"] / made["bound"]
    return made


def parts(runs: Runs, tasks: Mapping[str, str]) -> Iterator[Part]:
    """The section on theory: every claim beside every run, and the streams that break the Theorem."""
    claims = claims_of(runs.frame)
    yield list(sentences(claims, tasks))
    yield summary(runs, claims)
    examples = [loud_expert(RATIO, BEST), split_vote(BEST), learned_experts(LEARNED_RATIO)]
    yield figure("counter-example", examples_figure(examples))
    yield bounds(runs, claims, tasks)


def sentences(claims: pd.DataFrame, tasks: Mapping[str, str]) -> Iterator[str]:
    """Which claims hold in the runs, and that one of them is false all the same."""
    for name, claim in CLAIMS.items():
        of = claims[claims["claim"] == name]
        if len(of):
            where = sorted({tasks[task] for task in of[of["broken"]]["task"] if task in tasks})
            yield text(
                "claim-in-runs",
                claim=claim,
                n=len(of),
                broken=of["broken"].sum(),
                where=", ".join(where),
            )
    example = loud_expert(RATIO, BEST)
    mistakes = int(example.mistakes["scores"][-1])
    bound = example.bounds["theorem"]
    yield text("false-theorem", ratio=f"{RATIO:g}", mistakes=mistakes, bound=bound)


def summary(runs: Runs, claims: pd.DataFrame) -> Table:
    """Each claim against each method: in how many runs it was broken, and how near it came."""
    stats = claims.groupby(["claim", "method", "variant"]).agg(
        broken=("broken", "sum"), runs=("broken", "size"), nearest=("nearest", "max")
    )
    cells = {
        key: Value(f"{broken} of {n}", f"{near:.2f}", "far" if broken else "")
        for key, broken, n, near in stats.itertuples(name=None)
    }
    columns = sorted(
        {key[1:] for key in cells}, key=lambda key: (key[1] != "", runs.styles[key[0]], key[1])
    )
    rows = [
        [Value(claim.title, claim.formula, "words"), "yes" if claim.proved else "no"]
        + [cells.get((name, *column), "–") for column in columns]
        for name, claim in CLAIMS.items()
        if name in set(claims["claim"])
    ]
    return table(
        "claims", ["claim", "proved", *(_title(runs, *column) for column in columns)], rows
    )


def _title(runs: Runs, method: str, variant: str) -> str:
    return runs.titles[method] + (f", {variant}" if variant else "")


def bounds(runs: Runs, claims: pd.DataFrame, tasks: Mapping[str, str]) -> Table:
    """One line for each task, method, variant and claim."""
    places = {
        "method": runs.styles,
        "task": {t: i for i, t in enumerate(tasks)},
        "claim": list(CLAIMS).index,
    }
    orders = [claims["variant"], *(claims[name].map(place) for name, place in places.items())]
    keys = ["task", "method", "variant", "claim"]
    means = ["mistakes", "best", "bounded", "bound"]
    made = claims.assign(
        proved=claims["claim"].map(lambda name: CLAIMS[name].proved), runs=1
    ).groupby(orders)
    first = dict.fromkeys((*keys, "proved"), "first")
    ends = {"nearest": "max", "broken": "sum", "runs": "size"}
    records = made.agg(first | dict.fromkeys(means, "mean") | ends).rename(
        columns={"best": "best_expert"}
    )
    rows = [
        [tasks.get(task, task), _title(runs, method, variant), CLAIMS[claim].title,
         *(f"{mean:.1f}" for mean in four), f"{near:.2f}", f"{broken}/{n}"]
        for task, method, variant, claim, _, *four, near, broken, n in records.itertuples(index=False)
    ]  # fmt: skip
    header = ["task", "method", "claim", "M", "M_min", "bounded", "bound", "nearest", "broken"]
    return table("bounds", header, rows, records.to_dict("records"), folded=True)


# -- streams that break the Theorem -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """A stream of expert scores, and what each way of combining them makes of it.

    `mistakes` (cumulative, one curve a combination: "scores" is the paper's, then "vote", "simplex", "log-loss")
    stands beside `bounds`, the claims above for the whole stream; `weighted_loss` is Hedge's.
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
        return [
            claim for claim, bound in self.bounds.items() if self.value(claim) > bound + ROUNDING
        ]


def loud_expert(
    ratio: float, best: int = 0, beta: float | None = None, rounds: int = 200
) -> Example:
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
        raise InputError(
            f"ratio={ratio}, best={best}, rounds={rounds}: needs ratio >= 1 and 0 <= best < rounds"
        )
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
    scores = np.tile(np.eye(2), (rounds, 1, 1))
    return _example("two experts that never agree", scores, labels, beta or _beta(best, rounds))


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
    x = np.array([1.0, 0.0])
    beta = theorem_beta(1, 2)
    copies = 1 + int(ratio**2 / (4 * C))  # each row adds at most 2C/ratio to the margin at x
    source = Domain(
        "source", np.tile([x / ratio, -x / ratio], (copies, 1)), np.tile([0, 1], copies)
    )
    clf = classifier(
        "oddm", "paper", aligner="identity", preprocess=(), tau="original", source_pass="last", C=C, beta=beta,
        refresh_every=rounds + 1,
    ).fit_domains([source])  # fmt: skip
    F = np.empty((rounds, 2, 2))
    counted = np.empty(rounds, dtype=np.int64)
    for t in range(rounds):
        F[t] = clf.learner_.expert_scores(x[None])[0]
        clf.learn_one(x, 1)
        counted[t] = clf.mistakes_
    example = _example(
        "HomOTL-ODDM with a misleading source", F, np.ones(rounds, dtype=np.int64), beta
    )
    example.mistakes["oddm"] = counted
    return example


def _beta(best: int, rounds: int) -> float:
    return theorem_beta(best, 2) or horizon_beta(rounds, 2)


def _example(title: str, F: Array, y: Array, beta: float) -> Example:
    """Run every mixer over the same scores (T x N x K) and labels."""
    T, N = F.shape[:2]
    mixers: dict[str, Mixer] = {
        "scores": Hedge(beta), "vote": Hedge(beta, "vote"), "simplex": LossBased(), "log-loss": LogLoss(),
    }  # fmt: skip
    states = {name: mixer.start(N) for name, mixer in mixers.items()}
    mixed = {name: mixer.run(states[name], 0, F, y) for name, mixer in mixers.items()}
    own = {name: mixer.bound(states[name], T) for name, mixer in mixers.items()}
    best = int(states["scores"]["expert_loss"].min())
    printed = theorem_bound(best, N)
    step = own.pop("scores")
    return Example(
        title, beta, best, {name: np.cumsum(m.scores.argmax(axis=1) != y) for name, m in mixed.items()},
        np.cumsum((mixed["scores"].weights * mixed["scores"].losses).sum(axis=1)),
        {"theorem": printed, "theorem, loss": printed, "step": step, "hedge": step, **own},
    )  # fmt: skip


def examples_figure(examples: list[Example]) -> Any:
    """Mistakes of each combination on the streams that break the Theorem, beside its bound."""
    panels = []
    for example in examples:
        last = min(len(example.weighted_loss), 3 * max(int(example.mistakes["scores"][-1]), 10))
        x = np.arange(1, last + 1)
        curves = zip((6, 5, 3, 4), example.mistakes.items(), strict=False)
        lines = [Line(name, j, x, counts[:last]) for j, (name, counts) in curves]
        level = (example.bounds["theorem"], "Theorem's bound")
        panels.append(
            Panel(
                example.title, lines, "rounds", f"mistakes in {last} rounds", (0, last), level=level
            )
        )
    return draw(panels, size=(4.4, 3.7), names="ends", shared=False, gap=0.075)
