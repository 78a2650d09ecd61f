"""Every system of the paper's table as a composition of parts. Check it against the paper at a glance:

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

from dataclasses import dataclass

from hedgerow.core.registry import Registry


@dataclass(frozen=True)
class Recipe:
    """A method: which spaces, which experts in them, how they are mixed, whether the spaces are refreshed.

    spaces "shared": one for all sources pooled; "per-source": one for each. `frozen` says which source classifiers
    stay as experts ("each", "pooled" or ""), `online` where the online heads start ("zero" or "pooled"). In per-source
    spaces every space has its own frozen and its own online head. `log_experts` fixes the N in beta's ln N; None: by
    the reading. `ridge` names the spaces of our own learner (`hedgerow.learners.ridge.learner`), `steps` the
    preprocessing that a method brings along for the reading "general".

    >>> RECIPES["oddm"].aligner, RECIPES["oddm"].refresh
    ('jda', True)
    """

    title: str
    spaces: str
    aligner: str
    frozen: str
    online: str
    mixer: str
    refresh: bool = False
    log_experts: str | None = None
    reference: str = ""
    ridge: tuple[str, ...] = ()
    steps: tuple[str, ...] | None = None


METHODS: Registry[Recipe] = Registry("method")


def register_method(name: str, recipe: Recipe, *, replace: bool = False) -> Recipe:
    """Make a recipe known by a name, for `OnlineTransferClassifier(method=name)` and every table and figure.

    >>> register_method("oddm", RECIPES["oddm"]) is METHODS["oddm"]
    True
    """
    return METHODS.register(name, recipe, replace=replace)


ORIGINAL = "ln N"  # HomOTL-II and HomOTLMS define beta with their own number of experts, whatever the reading

RECIPES = {
    "pa": Recipe("PA", "shared", "identity", "", "zero", "single", reference="Crammer et al. 2006"),
    "paio": Recipe("PAIO", "shared", "identity", "", "pooled", "single", reference="Wu et al. 2017"),
    "homotl-1": Recipe("HomOTL-I", "shared", "identity", "pooled", "zero", "loss", reference="Zhao et al. 2014"),
    "homotl-2": Recipe(
        "HomOTL-II", "shared", "identity", "pooled", "zero", "hedge", log_experts=ORIGINAL, reference="Zhao et al. 2014"
    ),
    "homotlms": Recipe(
        "HomOTLMS", "shared", "identity", "each", "zero", "hedge", log_experts=ORIGINAL, reference="Wu et al. 2017"
    ),
    "oddm-fixed": Recipe(
        "HomOTL-ODDM (fixed)", "per-source", "jda", "each", "zero", "hedge", reference="Du et al. 2020"
    ),
    "oddm": Recipe(
        "HomOTL-ODDM", "per-source", "jda", "each", "zero", "hedge", refresh=True, reference="Du et al. 2020"
    ),
}
OWN_STEPS = ("auto", "centre", "unit")  # what fits the data, then each domain about its own mean
RECIPES |= {
    name: Recipe(title, "several", " + ".join(spaces), "", "sources", "bayes", ridge=spaces, steps=OWN_STEPS)
    for name, title, spaces in (
        ("hedgerow", "hedgerow", ("kernel", "white", "free", "pca", "recent")),
        ("hedgerow-linear", "hedgerow (linear)", ("input", "white", "free", "pca", "recent")),
    )
}
for _name, _recipe in RECIPES.items():
    register_method(_name, _recipe)
