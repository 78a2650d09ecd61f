"""A method: how it is built from sources and unlabelled target rows, and which options it reads.

Every kind of learner is one package with two nouns: a `Method` (a frozen dataclass with `build` and `options`) that
makes it, and an `OnlineLearner` that `register_learner` makes known, so that its models can be loaded. No other file
knows of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.preprocess import Preprocess
from hedgerow.core.source_rows import InMemory, SourceRows
from hedgerow.learners.readings import Reading

if TYPE_CHECKING:
    from hedgerow.align import Aligner, Alignment, Info
    from hedgerow.heads import Head
    from hedgerow.learners.base import OnlineLearner
    from hedgerow.mix import Mixer

    AlignFit = Callable[[Aligner, Matrix, Array, Matrix], Alignment]


@dataclass(frozen=True)
class Options:
    """What a user may choose beside the method itself; None is the method's own choice."""

    reading: Reading = field(default_factory=Reading)
    aligner: str | Aligner | None = None
    head: str | Head | None = None
    mixer: str | Mixer | None = None
    dim: int | None = None
    rank: int | None = None
    size: str | None = None
    C: float | None = None
    mu: float | None = None
    beta: float | None = None
    horizon: float | None = None
    dtype: str | None = None
    seed: int = 0

    def given(self) -> dict[str, Any]:
        """Everything that was chosen: options that are not None, and what differs from the reading's preset.

        >>> Options(Reading(lam=0.5), dim=20).given()
        {'dim': 20, 'lam': 0.5}
        """
        own = {name: getattr(self, name) for name in CHOICES if getattr(self, name) is not None}
        return own | self.reading.changes()


CHOICES = ("aligner", "head", "mixer", "dim", "rank", "size", "C", "mu", "beta", "horizon", "dtype")


@dataclass(frozen=True)
class Source:
    """A named source, its labels as codes 0..K-1, and where its rows stood among those of all sources.

    `weight` says how much each row counts; None is one for all.
    """

    name: str
    X: Matrix
    codes: Array
    positions: Array
    weight: Array | None = None


@dataclass(frozen=True)
class Offline:
    """What a learner is built from: preprocessed sources and warm-up rows, K classes, and the options."""

    sources: list[Source]
    warmup: Matrix
    K: int
    pre: Preprocess
    options: Options
    align: AlignFit

    def ingredients(self) -> Ingredients:
        """The same for a method that asks for statistics only."""
        rows = [InMemory(source.X, source.codes, source.weight) for source in self.sources]
        return Ingredients([source.name for source in self.sources], rows, self.warmup, self.K, self.pre, self.options)


@dataclass(frozen=True)
class Ingredients:
    """What a learner is built from that asks its sources for statistics, wherever their rows are (`SourceRows`)."""

    names: Sequence[str]
    rows: Sequence[SourceRows]
    warmup: Matrix
    K: int
    pre: Preprocess
    options: Options


@dataclass(frozen=True)
class Built:
    """A learner ready for the stream, and how its spaces were found."""

    learner: OnlineLearner
    infos: list[Info]


@dataclass(frozen=True)
class Method(ABC):
    """What every method has: a title for tables, a reference, the preprocessing that it brings along.

    `steps` stand in for the preprocessing of the reading "general"; None keeps that.

    >>> from hedgerow import METHODS
    >>> isinstance(METHODS["oddm"], Method), METHODS["hedgerow"].steps
    (True, ('auto', 'centre', 'unit'))
    """

    title: str
    reference: str = field(default="", kw_only=True)
    steps: tuple[str, ...] | None = field(default=None, kw_only=True)

    @abstractmethod
    def build(self, offline: Offline) -> Built:
        """The offline stage. There may be no sources and no warm-up rows: then only the target learns."""

    def build_from_statistics(self, given: Ingredients) -> Built | None:
        """The same from statistics of the sources alone; None: it needs the rows themselves, one after the other."""
        return None

    def takes_own_columns(self, given: Options) -> bool:
        """Whether it can learn target-only columns (`hedgerow.core.preprocess`), with these options."""
        return False

    @abstractmethod
    def options(self, given: Options) -> frozenset[str]:
        """The names of options, those of `Reading` among them, that make a difference beside the others given."""

    def row(self) -> dict[str, str]:
        """How it is made, for a table of methods."""
        return {"spaces": "-", "frozen": "-", "online": "-", "mixer": "-", "refresh": "-"}
