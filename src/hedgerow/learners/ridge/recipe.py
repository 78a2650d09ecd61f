"""Our own learner as a method: the names of its spaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hedgerow.learners.method import Built, Ingredients, Method, Offline, Options


@dataclass(frozen=True)
class RidgeRecipe(Method):
    """Ridge regressions with a source prior in these spaces (`ridge.plan.SPACES`), mixed with a bound."""

    spaces: tuple[str, ...] = ("input", "free")

    def build(self, offline: Offline) -> Built:
        """Maps, priors and pools."""
        return self.build_from_statistics(offline.ingredients())

    def build_from_statistics(self, given: Ingredients) -> Built:
        """All of it: in memory too, the sources are asked for statistics."""
        from hedgerow.learners.ridge.build import build

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
