"""The table of methods, and the offline stage: from options, sources and unlabelled target rows to a learner.

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

A new method is a new row: `register_method("mine", Recipe(...))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import Preprocess
from hedgerow.core.registry import Registry
from hedgerow.core.source_rows import SourceRows
from hedgerow.experts.recipe import ORIGINAL, Recipe
from hedgerow.learners.method import Built, Ingredients, Method, Offline, Options, Source

if TYPE_CHECKING:
    from hedgerow.align import Aligner, Alignment
    from hedgerow.learners.method import AlignFit


@dataclass(frozen=True)
class RidgeRecipe(Method):
    """Ridge regressions with a source prior in these spaces (`ridge.plan.SPACES`), mixed with a bound."""

    spaces: tuple[str, ...] = ("input", "free")

    def build(self, offline: Offline) -> Built:
        """Maps, priors and pools."""
        return self.build_from_statistics(offline.ingredients())

    def build_from_statistics(self, given: Ingredients) -> Built:
        """All of it: in memory too, the sources are asked for statistics."""
        from hedgerow.ridge.build import build

        return build(self.spaces, given)

    def takes_own_columns(self, given: Options) -> bool:
        """Beside its spaces."""
        return True

    def options(self, given: Options) -> frozenset[str]:
        """It has its own heads, aligners and mixers, and its regressions need double precision."""
        return frozenset({"rank", "size", "preprocess", "target_mean"})

    def row(self) -> dict[str, Any]:
        """Its parts, for a table of methods."""
        return super().row() | {"spaces": " + ".join(self.spaces), "online": "sources", "mixer": "bayes"}


METHODS: Registry[Method] = Registry("method")


def register_method(name: str, recipe: Method, *, replace: bool = False) -> Method:
    """Make a recipe known by a name, for `OnlineTransferClassifier(method=name)` and every table and figure.

    >>> register_method("oddm", RECIPES["oddm"]) is METHODS["oddm"]
    True
    """
    return METHODS.register(name, recipe, replace=replace)


CRAMMER, ZHAO, WU, DU = "Crammer et al. 2006", "Zhao et al. 2014", "Wu et al. 2017", "Du et al. 2020"
PAPER: dict[str, Method] = {
    "pa": Recipe("PA", mixer="single", reference=CRAMMER),
    "paio": Recipe("PAIO", online="pooled", mixer="single", reference=WU),
    "homotl-1": Recipe("HomOTL-I", frozen="pooled", mixer="loss", reference=ZHAO),
    "homotl-2": Recipe("HomOTL-II", frozen="pooled", mixer="hedge", log_experts=ORIGINAL, reference=ZHAO),
    "homotlms": Recipe("HomOTLMS", frozen="each", mixer="hedge", log_experts=ORIGINAL, reference=WU),
    "oddm-fixed": Recipe("HomOTL-ODDM (fixed)", "per-source", "jda", "each", mixer="hedge", reference=DU),
    "oddm": Recipe("HomOTL-ODDM", "per-source", "jda", "each", mixer="hedge", refresh=True, reference=DU),
}
OWN_STEPS = ("auto", "centre", "unit")  # what fits the data, then each domain about its own mean
OWN: dict[str, Method] = {
    "hedgerow": RidgeRecipe(
        "hedgerow", ("kernel", "white", "free", "pca", "recent", "near input", "near white"), steps=OWN_STEPS
    ),
    "hedgerow-linear": RidgeRecipe("hedgerow (linear)", ("input", "white", "free", "pca", "recent"), steps=OWN_STEPS),
}
RECIPES = PAPER | OWN
for _name, _recipe in RECIPES.items():
    register_method(_name, _recipe)


def fit_aligner(aligner: Aligner, X: Matrix, codes: Array, warmup: Matrix) -> Alignment:
    """The plain way; the paper's experiments pass one that remembers."""
    return aligner.fit(X, codes, warmup)


def build(
    method: Method,
    options: Options,
    sources: Sequence[Source],
    warmup: Matrix,
    K: int,
    align: AlignFit = fit_aligner,
) -> Built:
    """The whole offline stage. `warmup` may have no rows, and `sources` may be empty: then only the target learns."""
    pre = Preprocess(options.reading.preprocess)
    rows, U = pre.start([source.X for source in sources], warmup)
    scaled = [replace(source, X=X) for source, X in zip(sources, rows, strict=True)]
    return method.build(Offline(scaled, U, K, pre, options, align))


def build_from_rows(
    method: Method, options: Options, names: Sequence[str], rows: Sequence[SourceRows], warmup: Matrix, K: int
) -> Built:
    """The same for sources wherever their rows are, by a method that asks them for statistics only."""
    pre = Preprocess(options.reading.preprocess)
    scaled, U = pre.start_rows(rows, warmup)
    built = method.build_from_statistics(Ingredients(names, scaled, U, K, pre, options))
    assert built is not None, "check_merges comes first"
    return built


def check_merges(name: str) -> None:
    """Refuse a method that needs the rows of its sources one after the other; name those that do not."""
    if not merges(METHODS[name]):
        able = ", ".join(other for other in METHODS if merges(METHODS[other]))
        raise InputError(
            f"method={name!r} learns its sources row by row, so they have to be in memory; "
            f"methods that need statistics of the sources only: {able}"
        )


def merges(method: Method) -> bool:
    """Whether a method can be built from statistics alone."""
    return type(method).build_from_statistics is not Method.build_from_statistics


def check_options(name: str, method: Method, options: Options) -> None:
    """Refuse an option that was set and that the method does not read; name the methods that do."""
    read = method.options(options)
    for option, value in options.given().items():
        if option in read:
            continue
        others = [other for other in METHODS if option in METHODS[other].options(options)]
        where = f"methods that do: {', '.join(others)}" if others else "no method does beside the other options given"
        raise InputError(f"{option}={value!r}: method {name!r} does not read it here ({where}); leave it out")
