"""Our learner with one ingredient taken out: what each of them is worth.

An ablation is a set of replaced constants (of `hedgerow.learners.ridge`), other spaces, or other options of the
estimator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hedgerow import METHODS, OnlineTransferClassifier
from hedgerow.learners.ridge import build, class_targets, mixture, size
from hedgerow.learners.ridge.recipe import RidgeRecipe
from hedgerow.methods import OWN_STEPS

FULL = METHODS["hedgerow"].spaces


@dataclass(frozen=True)
class Ablation:
    """`constants` are (module, name) -> value; `spaces` those that stay; `settings` change a space's own constants."""

    constants: Mapping[tuple[Any, str], Any] = field(default_factory=dict)
    spaces: tuple[str, ...] = FULL
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


NO_RECENT, NO_NEAR = (tuple(s for s in FULL if not s.startswith(name)) for name in ("recent", "near"))
ALIKE = tuple(s for s in NO_NEAR if s != "pca")
SPACES = [name for name in FULL if name in build.SPACES]
MIN_MAX = ("row-minmax", "unit", "centre", "unit")


def unbounded() -> dict[str, size.Size]:
    """Every row of the sources, the target and the pool, every direction: what bounds cost."""
    most = replace(size.SIZES["full"], white=10**6, free=10**6, near=10**6)
    return {"full": replace(most, pool=10**6, source_rows=(10**6, 10**6), target_rows=10**5)}


ABLATIONS = {f"without {name}": Ablation(spaces=tuple(s for s in FULL if s != name)) for name in SPACES} | {
    "without local heads": Ablation(spaces=NO_NEAR),
    "without local heads in the input": Ablation(spaces=tuple(s for s in FULL if s != "near input")),
    "without local heads in the whitened space": Ablation(spaces=tuple(s for s in FULL if s != "near white")),
    "without the pool": Ablation(settings={"pool": 0.0}),
    "without balanced labels of the pool": Ablation(settings={"balanced": False}),
    "without class targets": Ablation(settings={"class_targets": False}),
    "without heads of single sources": Ablation({(class_targets, "EPSILON"): 1.0}, ALIKE),  # nor local heads
    "without deviation (tau = 0)": Ablation(settings={"tau": 0.0}),
    "without stacks": Ablation({(mixture, "MEMBERS"): np.array([0.5, 0.5, 0.0, 0.0])}),
    "without qbar in the end (stacks only)": Ablation({(mixture, "MEMBERS"): np.array([0.0, 0.0, 0.5, 0.5])}),
    "without fixed share": Ablation({(mixture, "SHARE"): 0.0}),
    "without forgetting": Ablation({(mixture, "KEEP"): np.ones(2)}, NO_RECENT),
    "without temperatures (2 only)": Ablation({(mixture, "TEMPERATURES"): 1}),
    "without experts with class frequencies": Ablation({(mixture, "PRIOR_WEIGHT"): 1e-12}),
    "without centring": Ablation(options={"preprocess": ("auto", "unit")}),
    "without the input map (min-max and unit length)": Ablation(options={"preprocess": MIN_MAX}),
    "without bounds": Ablation({(size, "SIZES"): unbounded()}),
    "small": Ablation(options={"size": "small"}),
    "rank 512": Ablation(options={"rank": 512}),
    "rank 256": Ablation(options={"rank": 256}),
    "rank 128": Ablation(options={"rank": 128}),
}  # fmt: skip


@contextmanager
def without(label: str) -> Iterator[OnlineTransferClassifier]:
    """The classifier of an ablation; its constants are replaced while the block runs."""
    chosen = ABLATIONS[label]
    name = f"hedgerow {label}"
    if name not in METHODS:
        METHODS.register(name, RidgeRecipe(name, chosen.spaces, steps=OWN_STEPS))
    changed = {n: replace(s, **chosen.settings) for n, s in build.SPACES.items()}
    constants = {**chosen.constants, (build, "SPACES"): changed}
    before = {(module, key): getattr(module, key) for module, key in constants}
    for (module, key), value in constants.items():
        setattr(module, key, value)
    try:
        yield OnlineTransferClassifier(name, **chosen.options)
    finally:
        for (module, key), value in before.items():
            setattr(module, key, value)
