"""Every system of the paper's table, and ours, as a composition of parts. Check it against the paper at a glance:

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

from hedgerow.core.registry import Registry
from hedgerow.learners.experts.recipe import ORIGINAL, Recipe
from hedgerow.learners.method import Method
from hedgerow.learners.ridge.recipe import RidgeRecipe

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
