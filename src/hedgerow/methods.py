"""What is a method: the table of all of them, the options that each one reads, and what a learner is built from.

Every system of the paper's table, and ours, as a composition of parts. Check it against the paper at a glance:

| method       | spaces         | experts                                       | mixer             | refresh          |
|--------------|----------------|-----------------------------------------------|-------------------|------------------|
| `pa`         | identity       | online PA from zero                           | single            | -                |
| `paio`       | identity       | online PA started at the pooled source's      | single            | -                |
| `homotl-1`   | identity       | frozen pooled source, online PA               | loss-based        | -                |
| `homotl-2`   | identity       | frozen pooled source, online PA               | Hedge on mistakes | -                |
| `homotlms`   | identity       | n frozen sources, one online PA               | Hedge on mistakes | -                |
| `oddm-fixed` | n, JDA each    | n frozen sources, n online PA                 | Hedge on mistakes | -                |
| `oddm`       | n, JDA each    | n frozen sources, n online PA                 | Hedge on mistakes | every T_w labels |

A new method is a new row, `OnlineTransferClassifier(Recipe("Mine", ...))`.

Where the paper, its authors' code and its table differ, each place is a named answer of a `Reading`:

| #  | option          | paper          | authors' code     | table                               | general       |
|----|-----------------|----------------|-------------------|-------------------------------------|---------------|
| 1  | `tau`           | printed        | original          | original                            | original      |
| 2  | `source_pass`   | average        | last              | last; baselines: average            | average       |
| 3  | `target_mean`   | stream         | warmup            | warmup                              | warmup        |
| 4  | `unseen`        | skip (unsaid)  | zero              | zero                                | shrink        |
| 5  | `refresh_every` | 10 (PIE: 50)   | 10                | 10 (PIE: 50)                        | 50            |
| 6  | `split_rule`    | drawn          | fixed             | fixed                               | drawn         |
| 7  | `preprocess`    | zscore         | row-minmax + unit | row-minmax + unit; baselines: no unit | zscore + unit |
| 8  | `projected`     | plain          | unit              | unit                                | unit          |
| 9  | `beta_rule`     | ln 2n          | ln 2              | ln 2                                | ln 2n         |
| 10 | `inverse`       | pinv           | woodbury (equal)  | woodbury                            | woodbury      |
| 11 | `lam`           | 1 (PIE: .1)    | .1                | 1 (PIE: .1)                         | 1             |
| 12 | `guarantee`     | theorem        | proved            | proved                              | proved        |

`eigenvectors` (MATLAB's unit length, or a^T S a = 1) and `combine` complete a reading. The values for PIE are set by
its tasks. "general" is our default for data that is not the paper's: each domain scaled by its own statistics, and none
of the accidents above.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Real
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import numpy as np

from hedgerow.align import ALIGNERS, Aligner, Info
from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.preprocess import AUTO, FILL, SCALE, TABLE, Preprocess, parse
from hedgerow.core.registry import Registry, plugins
from hedgerow.core.source_rows import InMemory, SourceRows
from hedgerow.heads import HEADS, Head
from hedgerow.learner import OnlineLearner
from hedgerow.mix import MIXERS, Mixer

# -- readings: an answer to each place where the paper, its code and its table differ ---------------------------------

NAMES = ("general", "authors", "paper", "table")
BASELINES = ("pa", "paio", "homotl-1", "homotl-2", "homotlms")
# what "table" means for the rows of the table that did not come from the released code and its features
PRESETS = (*NAMES, "table-baselines")


@dataclass(frozen=True)
class Reading:
    """An answer to each place where the paper, its authors' code and its published table differ.

    Use a preset by its name (`PaperOptions(reading="authors")`) to repeat somebody's numbers, and
    `reading_of` to change one answer of it. For data of your own the preset "general" is the default.

    Parameters
    ----------
    tau : "original" or "printed"
        The step of PA-I: as Crammer et al. define it, or as the paper prints it.
    source_pass : "last" or "average"
        The weights of a source classifier after its pass, or their mean over the pass.
    target_mean : "warmup" or "stream"
        Whether the means of the target start from its unlabelled rows.
    unseen : str
        What the refresh does with a class that one side has not shown yet.
    refresh_every : int
        T_w, labels between two refreshes.
    split_rule : "drawn" or "fixed"
        How experiments split the target; a classifier does not split and refuses another answer.
    preprocess : tuple of str
        The steps of the preprocessing.
    projected : "unit" or "plain"
        Whether projected rows are brought to unit length.
    beta_rule : "ln 2" or "ln 2n"
        The logarithm in Hedge's discount.
    inverse : "woodbury" or "pinv"
        How the refresh solves its linear system.
    lam : float
        The ridge of the aligner.
    guarantee : "proved" or "theorem"
        The bound that holds, or the one that the paper states.
    eigenvectors : "unit" or "S"
        Their length: one, or a^T S a = 1.
    combine : str or None
        How experts become one prediction; None: as the method defines it.
    preset : str
        The name of the reading that it started from.

    Raises
    ------
    InputError
        For an answer that does not exist.

    Examples
    --------
    >>> Reading(lam=0.5).changes()
    {'lam': 0.5}
    """

    tau: Literal["original", "printed"] = "original"
    source_pass: Literal["last", "average"] = "average"
    target_mean: Literal["warmup", "stream"] = "warmup"
    unseen: Literal["zero", "skip", "shrink"] = "shrink"
    refresh_every: int = 50
    split_rule: Literal["drawn", "fixed"] = "drawn"
    preprocess: tuple[str, ...] = ("zscore", "unit")
    projected: Literal["unit", "plain"] = "unit"
    beta_rule: Literal["ln 2", "ln 2n"] = "ln 2n"
    inverse: Literal["woodbury", "pinv"] = "woodbury"
    lam: float = 1.0
    guarantee: Literal["proved", "theorem"] = "proved"
    eigenvectors: Literal["unit", "S"] = "unit"
    combine: Literal["scores", "vote", "simplex", None] = None
    preset: str = "general"

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise unknown("reading", self.preset, PRESETS)
        for name, choices in ANSWERS.items():
            if getattr(self, name) not in choices:
                raise unknown(f"value of {name}", getattr(self, name), filter(None, choices))
        if not isinstance(self.refresh_every, int | np.integer) or self.refresh_every < 1:
            raise InputError(
                f"refresh_every={self.refresh_every!r}: must be a whole number of labels, at least 1"
            )
        if not (isinstance(self.lam, Real) and 0 < self.lam < math.inf):
            raise InputError(
                f"lam={self.lam!r}: the ridge of the aligner must be a positive number"
            )
        object.__setattr__(self, "preprocess", parse(self.preprocess, internal=True))

    def changes(self) -> dict[str, Any]:
        """The answers that differ from those of the preset."""
        preset = READINGS[self.preset]
        return {
            name: getattr(self, name)
            for name in QUESTIONS
            if getattr(self, name) != getattr(preset, name)
        }


QUESTIONS = tuple(each.name for each in fields(Reading) if each.name != "preset")
ANSWERS = {
    name: get_args(kind)
    for name, kind in get_type_hints(Reading).items()
    if get_origin(kind) is Literal
}
AUTHORS = Reading(
    source_pass="last", unseen="zero", refresh_every=10, split_rule="fixed", preprocess=("row-minmax", "unit"),
    beta_rule="ln 2", lam=0.1, preset="authors",
)  # fmt: skip
PAPER = Reading(
    tau="printed", target_mean="stream", unseen="skip", refresh_every=10, preprocess=("zscore",), projected="plain",
    inverse="pinv", guarantee="theorem", preset="paper",
)  # fmt: skip
PUBLISHED = replace(AUTHORS, lam=1.0, preset="table")
READINGS = {
    "general": Reading(),
    "authors": AUTHORS,
    "paper": PAPER,
    "table": PUBLISHED,
    "table-baselines": replace(
        PUBLISHED, preprocess=("row-minmax",), source_pass="average", preset="table-baselines"
    ),
}


def reading_of(reading: str | Reading, method: str = "", **changes: Any) -> Reading:
    """The reading that a name means for a method, or a reading itself, with some of its answers changed.

    Parameters
    ----------
    reading : str or Reading
        "general", "authors", "paper" or "table", or an object.
    method : str
        The method that it is for: "table" means other answers for the baselines of the published table.
    **changes
        Answers by name, see `Reading`.

    Returns
    -------
    Reading

    Raises
    ------
    InputError
        For a name or an answer that does not exist; the error names the nearest one.

    Examples
    --------
    >>> reading_of("authors", lam=1.0).lam, reading_of("table", "paio").preprocess
    (1.0, ('row-minmax',))
    """
    if not isinstance(reading, Reading):
        if reading not in READINGS:
            raise unknown("reading", reading, NAMES)
        reading = READINGS[
            "table-baselines" if reading == "table" and method in BASELINES else reading
        ]
    for name in changes:
        if name not in QUESTIONS:
            raise unknown("answer of a reading", name, QUESTIONS)
    return replace(reading, **changes)


def as_table() -> list[dict[str, Any]]:
    """Every answer in each reading, for printing.

    >>> as_table()[0]["authors"]
    'original'
    """
    rows = {name: asdict(READINGS[name]) for name in NAMES}
    return [
        {"option": name, **{preset: row[name] for preset, row in rows.items()}}
        for name in QUESTIONS
    ]


# -- what a learner is built from -------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PaperOptions:
    r"""Options of the paper's methods: `OnlineTransferClassifier("oddm", options=PaperOptions(dim=20))`.

    Nothing is checked before `fit`. A method reads some of the options; one that was set and that it does not read is
    refused. In a grid each has its name after two underscores: `{"options__dim": [10, 20, 50]}`.

    Parameters
    ----------
    reading : str or Reading
        "general" (our defaults for any data), "authors" (the released code), "paper" (the text as printed) or
        "table" (what reproduces the published table): an answer to each place where paper and code differ. A `Reading`
        has other answers: `reading=hedgerow.reading_of("authors", lam=1.0)`.
    aligner, head, mixer : str, object or None
        Names of `align.ALIGNERS`, `heads.HEADS`, `mix.MIXERS`, or objects. None is the method's own.
    dim : int or None
        Upper limit of the dimension of an aligned space (None: 100); `dim_` says what the data allowed.
    C : float or None
        Aggressiveness of PA-I, PA-II and AROW (None: 5).
    mu : float or None
        Strength of the refresh, :math:`A \leftarrow (I + \mu \sum_k g_k g_k^\top)^{-1} A` (None: 1).
    beta : float or None
        Hedge's discount in (0, 1).
    horizon : float or None
        T, the expected number of labels: :math:`\beta = \sqrt T/(\sqrt T + \sqrt{\ln N})`. With neither, the anytime
        rule is used: the labels so far in place of T (`hedgerow.mix.Hedge`).
    dtype : str or None
        "float64", "float32" or None (as the data comes).

    Examples
    --------
    >>> PaperOptions(dim=20, head="arow")
    PaperOptions(head='arow', dim=20)
    """

    reading: str | Reading = "general"
    aligner: str | Aligner | None = None
    head: str | Head | None = None
    mixer: str | Mixer | None = None
    dim: int | None = None
    C: float | None = None
    mu: float | None = None
    beta: float | None = None
    horizon: float | None = None
    dtype: str | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every option by its name, for scikit-learn's `clone` and grids."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        changed = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"


@dataclass(frozen=True, repr=False)
class Options(PaperOptions):
    """What a user may choose beside the method itself, the reading resolved; None is the method's own choice."""

    reading: Reading = field(default_factory=Reading)
    rank: int | None = None
    trees: bool | None = None
    experts: Mapping[str, Any] | None = None
    seed: int = 0

    def chosen(self) -> dict[str, Any]:
        """Everything that was chosen: options that are not None, and what differs from the reading's preset.

        >>> Options(Reading(lam=0.5), dim=20).chosen()
        {'dim': 20, 'lam': 0.5}
        """
        own = {name: getattr(self, name) for name in CHOICES if getattr(self, name) is not None}
        return own | self.reading.changes()


CHOICES = tuple(each.name for each in fields(Options) if each.name not in ("reading", "seed"))


def paper_options(params: Mapping[str, Any]) -> PaperOptions:
    """The options of the paper's methods among an estimator's parameters."""
    options = params["options"]
    if options is None:
        return PaperOptions()
    if not isinstance(options, PaperOptions):
        raise InputError(f"options={options!r}: give hedgerow.PaperOptions(...), or None")
    return options


@dataclass(frozen=True)
class Training:
    """What a learner is built from: named sources, wherever their rows are, unlabelled target rows, K classes, options.

    `positions` are those of in-memory rows among the rows of all sources: the order of a pooled pass; without
    them source after source. `pre` is the
    preprocessing that a method's `build` finds applied already; `given` are then the sources as they came. `spans` has
    the first number and the width of each column of a table (None: a number is a column). `models`: those of the
    user's own by name, with the code of each number that they say of a row.
    """

    names: Sequence[str]
    rows: Sequence[SourceRows]
    warmup: Matrix
    K: int
    options: Options
    positions: Sequence[Array] = ()
    pre: Preprocess = field(default_factory=lambda: Preprocess(()))
    given: Sequence[SourceRows] = ()
    spans: Sequence[tuple[int, int]] | None = None
    models: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def sources(self) -> list[InMemory]:
        """The sources with their rows, for a method that learns these one by one (`check_merges` comes first)."""
        return [rows for rows in self.rows if isinstance(rows, InMemory)]


@dataclass(frozen=True)
class Built:
    """A learner ready for the stream, and how its spaces were found."""

    learner: OnlineLearner
    infos: list[Info]


@dataclass(frozen=True)
class Method(ABC):
    """How a learner is built from sources and unlabelled target rows, and which options it reads: see `Recipe`.

    Parameters
    ----------
    title : str
        Its name in tables and figures.
    reference : str
        Where it was published.
    steps : tuple of str or None
        Preprocessing in place of that of the reading "general"; None keeps that.

    Examples
    --------
    >>> from hedgerow import METHODS
    >>> isinstance(METHODS["oddm"], Method), METHODS["hedgerow"].steps
    (True, ('auto', 'centre', 'unit'))
    """

    title: str
    reference: str = field(default="", kw_only=True)
    steps: tuple[str, ...] | None = field(default=None, kw_only=True)
    merges: ClassVar[bool] = (
        False  # whether it asks its sources for statistics only, wherever their rows are
    )

    @abstractmethod
    def build(self, training: Training) -> Built:
        """The offline stage. There may be no sources and no warm-up rows: then only the target learns."""

    @abstractmethod
    def options(self, options: Options) -> frozenset[str]:
        """The names of options, those of `Reading` among them, that make a difference beside the others given."""

    def takes_target_only(self, options: Options) -> bool:
        """Whether it can learn target-only columns (`hedgerow.core.preprocess`) with these options."""
        return False

    def prepared(self, training: Training) -> Training:
        """With the steps that its rows need beside those asked for; most methods need none."""
        return training

    def row(self) -> dict[str, str]:
        """How it is made, for a table of methods."""
        return {"spaces": "-", "frozen": "-", "online": "-", "mixer": "-", "refresh": "-"}


def build(method: Method, training: Training) -> Built:
    """The whole offline stage: rows are preprocessed, then the method builds its learner."""
    training = method.prepared(training)
    pre = Preprocess(training.options.reading.preprocess)
    rows, warmup = pre.fit(training.rows, training.warmup)
    return method.build(replace(training, rows=rows, warmup=warmup, pre=pre, given=training.rows))


# -- the two kinds of method ------------------------------------------------------------------------------------------

ORIGINAL = "ln N"  # HomOTL-II and HomOTLMS define beta with their own number of experts; no reading changes that
SINGLE = "single"
PARTS = ("aligner", "head", "mixer")


@dataclass(frozen=True)
class Recipe(Method):
    """A method of the paper's kind as a composition: spaces, experts in them, a mixer, a refresh.

    Parameters
    ----------
    spaces : "shared" or "per-source"
        One space for all sources pooled, or one for each. In per-source spaces every space has its own frozen and its
        own online head.
    aligner : str or Aligner
        What finds the spaces.
    frozen : "each", "pooled" or ""
        Which source classifiers stay as experts.
    online : "zero" or "pooled"
        Where the online heads start.
    mixer : str or Mixer
        How the experts become one prediction.
    refresh : bool
        Whether the projections are updated every T_w labels.
    head : str or Head
        The rule by which the classifiers learn.
    log_experts : str or None
        Fixes the N in beta's ln N; None: by the reading.

    Examples
    --------
    >>> from hedgerow import OnlineTransferClassifier
    >>> mine = Recipe("Mine", "per-source", aligner="coral", frozen="each", head="arow")
    >>> OnlineTransferClassifier(mine).fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"]).method_
    'Mine'
    """

    spaces: str = "shared"
    aligner: str | Aligner = "identity"
    frozen: str = ""
    online: str = "zero"
    mixer: str | Mixer = "hedge"
    refresh: bool = False
    head: str | Head = "pa1"
    log_experts: str | None = None

    def build(self, training: Training) -> Built:
        """Align every space, train the source classifiers, lay out the experts."""
        from hedgerow.experts import build

        return build(self.with_parts(training.options), training)

    def with_parts(self, options: Options) -> Self:
        """With the aligner, the head and the mixer that were chosen in place of its own."""
        return replace(
            self, **{name: part for name in PARTS if (part := getattr(options, name)) is not None}
        )

    def takes_target_only(self, options: Options) -> bool:
        """Where experts see the input itself; an aligned space would have to be made of all columns."""
        return self.with_parts(options).aligner == "identity" and not self.refresh

    def options(self, options: Options) -> frozenset[str]:
        """What its parts read."""
        parts = self.with_parts(options)
        aligner = parts.aligner
        head = parts.head
        mixer = parts.mixer
        read = {"aligner", "head", "preprocess", "target_mean", "dtype"}
        if isinstance(aligner, str):
            read |= ALIGNERS.options(aligner) & {"dim", "lam", "eigenvectors"}
        if aligner != "identity" or self.refresh:
            read |= {"projected"}
        if isinstance(head, str):
            read |= HEADS.options(head) & {"C"} | ({"tau"} if head == "pa1" else set())
        if self.frozen or self.online == "pooled":
            read |= {"source_pass"}
        if self.refresh:
            read |= {"mu", "refresh_every", "unseen", "inverse"}
        if self.mixer == SINGLE:
            return frozenset(read)
        read |= {"mixer"}
        if isinstance(mixer, str):
            of_mixer = MIXERS.options(mixer)
            read |= {"combine"} if "combination" in of_mixer else set()
            read |= {"guarantee"} if "proof" in of_mixer else set()
        if mixer == "hedge":
            read |= {"beta"} if options.horizon is None or options.beta is not None else set()
            if options.beta is None:
                read |= {"horizon"} | ({"beta_rule"} if self.log_experts is None else set())
        return frozenset(read)

    def row(self) -> dict[str, str]:
        """Its parts, for a table of methods."""
        return {
            "spaces": f"{_named(self.aligner)}, {self.spaces}",
            "frozen": self.frozen or "-",
            "online": self.online,
            "mixer": _named(self.mixer),
            "refresh": "yes" if self.refresh else "-",
        }


def _named(part: object) -> str:
    """A part's name, or what it prints as."""
    return part if isinstance(part, str) else repr(part)


@dataclass(frozen=True)
class RidgeRecipe(Method):
    """Ridge regressions with a source prior in these spaces (`ridge.plan.SPACES`), mixed with a bound.

    each: whether every space has a head for each source too.
    """

    spaces: tuple[str, ...] = ("free",)
    each: bool = False
    merges: ClassVar[bool] = True

    def build(self, training: Training) -> Built:
        """Maps, priors and pools; in memory too, the sources are asked for statistics."""
        from hedgerow.ridge.build import build

        return build(self.spaces, self.each, training)

    def prepared(self, training: Training) -> Training:
        """Later rows of a table may have gaps, where the steps are the method's own."""
        from hedgerow.ridge.build import are_of_a_table

        reading = training.options.reading
        given = tuple(SCALE if step == AUTO else step for step in reading.preprocess)
        own = self.steps is not None and given == (SCALE, *self.steps[1:])
        if not (own and self.local and are_of_a_table(training)):
            return training
        reading = replace(reading, preprocess=(FILL, *reading.preprocess))
        return replace(training, options=replace(training.options, reading=reading))

    @property
    def local(self) -> bool:
        """Whether it keeps rows, and has trees: `hedgerow-linear` has statistics that merge, and nothing else."""
        return "near input" in self.spaces

    def takes_target_only(self, options: Options) -> bool:
        """Beside its spaces."""
        return True

    def options(self, options: Options) -> frozenset[str]:
        """It has its own heads, aligners and mixers, and its regressions need double precision."""
        trees = {"trees"} if self.local else set()
        return frozenset({"rank", "preprocess", "target_mean", "experts"} | trees)

    def row(self) -> dict[str, str]:
        """Its parts, for a table of methods."""
        return super().row() | {
            "spaces": " + ".join(self.spaces),
            "online": "sources",
            "mixer": "bayes",
        }


# -- the table --------------------------------------------------------------------------------------------------------

CRAMMER = "Crammer et al. 2006"
ZHAO = "Zhao et al. 2014"
WU = "Wu et al. 2017"
DU = "Du et al. 2020"
OWN_STEPS = ("auto", "centre", "unit")  # what fits the data, then each domain about its own mean
OURS = ("kernel", "white", "free", "fading", "near input")
RECIPES: dict[str, Method] = {
    "pa": Recipe("PA", mixer="single", reference=CRAMMER),
    "paio": Recipe("PAIO", online="pooled", mixer="single", reference=WU),
    "homotl-1": Recipe("HomOTL-I", frozen="pooled", mixer="loss", reference=ZHAO),
    "homotl-2": Recipe(
        "HomOTL-II", frozen="pooled", mixer="hedge", log_experts=ORIGINAL, reference=ZHAO
    ),
    "homotlms": Recipe(
        "HomOTLMS", frozen="each", mixer="hedge", log_experts=ORIGINAL, reference=WU
    ),
    "oddm-fixed": Recipe(
        "HomOTL-ODDM (fixed)", "per-source", "jda", "each", mixer="hedge", reference=DU
    ),
    "oddm": Recipe(
        "HomOTL-ODDM", "per-source", "jda", "each", mixer="hedge", refresh=True, reference=DU
    ),
    "hedgerow": RidgeRecipe("hedgerow", OURS, steps=OWN_STEPS),
    "hedgerow-linear": RidgeRecipe(
        "hedgerow (linear)", ("input", *OURS[1:4]), each=True, steps=OWN_STEPS
    ),
}


class Methods(Registry[Method]):
    """Our methods by name, and the recipes that are variables of plug-in files, by the names of the variables."""

    def _ask_plugins(self) -> None:
        for module in plugins():
            for name, value in vars(module).items():
                if isinstance(value, Recipe):
                    self._parts.setdefault(name, value)

    def __contains__(self, name: object) -> bool:
        self._ask_plugins()
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._ask_plugins()
        return super().__iter__()


METHODS = Methods("method", RECIPES)


def method_of(choice: str | Method) -> Method:
    """The method of a name, or a recipe as it is."""
    if isinstance(choice, Method):
        return choice
    if not isinstance(choice, str):
        raise InputError(
            f"method={choice!r}: give a name of hedgerow.METHODS, or a hedgerow.Recipe"
        )
    return METHODS[choice]


def name_of(choice: str | Method) -> str:
    """The name of a method in tables and messages; that of a recipe is its title."""
    return choice.title if isinstance(choice, Method) else str(choice)


def check_merges(choice: str | Method) -> None:
    """Refuse a method that needs the rows of its sources one after the other; name those that do not."""
    if not method_of(choice).merges:
        able = ", ".join(other for other in METHODS if METHODS[other].merges)
        raise InputError(
            f"method={name_of(choice)!r} learns its sources row by row, so they have to be in memory; "
            f"methods that need statistics of the sources only: {able}"
        )


# -- from an estimator's parameters to a method and its options -------------------------------------------------------

WHOLE = ("dim", "rank", "max_classes")
NUMBERS = (*WHOLE, "C", "mu", "beta", "horizon", "random_state")


def named(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an estimator, each option of the paper's methods beside the others."""
    return {**params, **paper_options(params).get_params()}


def choose(params: Mapping[str, Any], encoder: Any = None) -> tuple[Method, Options]:
    """The method and its options, every name and number checked; an option that the method does not read is refused.

    With an encoder (`hedgerow.tables.TableEncoder`), rows are what it makes of a table.
    """
    params = named(params)
    name = name_of(params["method"])
    steps = parse(params["preprocess"])
    method = method_of(params["method"])
    _check_values(params)
    reading = reading_of(params["reading"], name)
    if "split_rule" in reading.changes():
        raise InputError(
            f"split_rule={reading.split_rule!r}: a classifier does not split; use hedgerow.split(target, seed=None) "
            "for the published order, or with a seed"
        )
    options = Options(
        reading, seed=int(params["random_state"] or 0), **{key: params[key] for key in CHOICES}
    )
    _check_read(name, method, options)
    parse(reading.preprocess)  # without internal names
    reading = _with_steps(reading, method, params["preprocess"])
    if encoder is None and TABLE in reading.preprocess:
        raise InputError(
            "preprocess='table' encodes tables in memory; leave it out where rows are numbers"
        )
    if encoder is not None:
        reading = replace(
            reading, preprocess=_steps_of_table(reading.preprocess, TABLE in steps, encoder)
        )
    return method, replace(options, reading=reading)


def _check_values(params: Mapping[str, Any]) -> None:
    """Refuse numbers that no method could use."""
    for number in NUMBERS:
        check_number(number, params[number])
    if params["trees"] not in (True, False, None):
        raise InputError(
            f"trees={params['trees']!r}: give True, False or None (where they are likely to help)"
        )
    if params["mu"] is not None and not params["mu"] >= 0:
        raise InputError(f"mu={params['mu']!r}: the strength of the refresh cannot be negative")
    if params["beta"] is not None and params["horizon"] is not None:
        raise InputError(
            f"beta={params['beta']!r}, horizon={params['horizon']!r}: the horizon gives a beta; give one"
        )


def _steps_of_table(steps: Sequence[str], asked: bool, encoder: Any) -> tuple[str, ...]:
    """The steps for encoded rows: gaps are filled; columns of different kinds have a scale each."""
    unlike = asked or not encoder.only_numbers
    own = ["scale" if step == AUTO and unlike else step for step in steps if step != TABLE]
    target_only = [f"target-only-{encoder.own_width}"] if encoder.own_width else []
    return (*target_only, FILL, *own)


def _check_read(name: str, method: Method, options: Options) -> None:
    """Refuse an option that was set and that the method does not read; name the methods that do."""
    read = method.options(options)
    for option, value in options.chosen().items():
        if option in read:
            continue
        others = [other for other in METHODS if option in METHODS[other].options(options)]
        where = (
            f"methods that do: {', '.join(others)}"
            if others
            else "no method does beside the other options given"
        )
        raise InputError(
            f"{option}={value!r}: method {name!r} does not read it here ({where}); leave it out"
        )


def _with_steps(reading: Reading, method: Method, steps: Any) -> Reading:
    """The preprocessing: that of the parameter, of the reading, or the method's own where neither says anything."""
    if steps is not None and parse(steps) != (TABLE,):  # alone, it leaves the steps to the method
        if "preprocess" in reading.changes():
            raise InputError(
                f"preprocess={steps!r}: the reading has {reading.preprocess} already; give one of them"
            )
        return replace(reading, preprocess=parse(steps))
    if method.steps is None or reading.preset != "general" or "preprocess" in reading.changes():
        return reading
    return replace(reading, preprocess=method.steps)


def check_number(name: str, value: Any) -> None:
    """None, or a finite number, whole where it counts something; its range is checked where it is used."""
    if value is None:
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise InputError(f"{name}={value!r}: must be a finite number")
    if name in WHOLE and (value != math.floor(value) or value < 1):
        raise InputError(f"{name}={value!r}: must be a whole number, at least 1")
