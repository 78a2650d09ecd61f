"""What a regressor is made of: its heads by name, its sources, and the arrays that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow import drift as evidence
from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.registry import of_json
from hedgerow.learner import MOST, WHOLE, Layout, Spec, State, prefixed, under
from hedgerow.ridge import trees

REGRESSIONS = ("linear", "kernel", "kernel, free", "kernel, recent")
OUTPUTS = ("trees", "kernel")  # the frozen outputs that residuals are taken of
MIXTURES = ("ML-Poly", "exponential weights", "stack", "stack, strong ridge")
TARGET_ROWS = 1000


def number_specs(experts: int, levels: int) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """What every learner of numbers has: scales; the range of y, trackers of intervals, counters."""
    constants = {"x.mean": Spec(("m",)), "x.sd": Spec(("m",), low=1e-300)}
    constants |= {"y.mean": Spec((1,)), "y.sd": Spec((1,), low=1e-300)}
    state = {"range": Spec((2,)), "quantile": Spec((levels,), low=0), "top": Spec((1,), low=0)}
    state |= {"covered": Spec((levels,), WHOLE, 0, MOST), "counts": Spec((2 + experts,), WHOLE, 0, MOST)}
    return constants, state | evidence.specs(2 + experts)


def zeros(plan: Any, m: int) -> State:
    """The state before any label, where it is zero."""
    state: State = plan.layout().zeros(m=m)
    return state | evidence.initial(state["counts"])


@dataclass(frozen=True)
class RegressionPlan:
    """The sources, those with heads of their own, the coverages of the intervals, and how many target rows are kept."""

    sources: tuple[str, ...]
    own: tuple[str, ...]
    coverage: tuple[float, ...]
    kept: int = TARGET_ROWS

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RegressionPlan:
        """From plain lists and numbers; data of a file is not trusted."""
        plan = of_json(cls, data)
        if not set(plan.own) <= set(plan.sources) or (plan.own and len(plan.sources) < 2):
            raise InputError(f"heads of {plan.own} for the sources {plan.sources}")
        if plan.kept < 1 or not plan.coverage or not all(0 < c < 1 for c in plan.coverage):
            raise InputError(f"{plan.kept} kept rows and coverage={plan.coverage}")
        return plan

    @property
    def trained(self) -> list[str]:
        """What is trained on the sources, for trees and for every regression: all, within, each of `own`."""
        if not self.sources:
            return ["no source"]
        return [
            "all sources",
            *(["within sources"] if len(self.sources) > 1 else []),
            *(f"source {s}" for s in self.own),
        ]

    def columns(self, i: int) -> list[str]:
        """The heads of regression i."""
        last = "residual of the trees"
        return [self.trained[0], last] if i == len(REGRESSIONS) - 1 else [*self.trained, "target alone", last]

    @property
    def outputs(self) -> list[str]:
        """The frozen outputs: of the trees, and of the kernel regression of all sources."""
        return [*(f"trees: {name}" for name in self.trained), f"kernel: {self.trained[0]}, frozen"]

    @property
    def heads(self) -> list[str]:
        """All heads, in the order of the compiled loop."""
        names = [f"{space}: {name}" for i, space in enumerate(REGRESSIONS) for name in self.columns(i)]
        names += [
            f"{output}, {what}" for what in ("level and scale", "recent level and scale") for output in self.outputs
        ]
        names += [f"{name}, {what}" for what in ("frozen", "mean offset", "recent offset") for name in OUTPUTS]
        for what in ("near", "nearest"):
            names += [f"{what} rows: residuals of {name}" for name in OUTPUTS] + [f"{what} rows"]
        return [*names, "nearest rows, sources too", "mean of the target", "moving average of the target"]

    def layout(self) -> Layout:
        """Name, shape, type and range of every array."""
        heads, levels, outputs = len(self.heads), len(self.coverage), len(self.outputs)
        constants, state = number_specs(heads, levels)
        constants |= {
            "landmarks": Spec(("l", "m")),
            "settings": Spec((3,), low=0),
            "A": Spec(("l", "r")),
            "source": Spec(("D",)),
            "near.x": Spec(("near", "m")),
            "near.y": Spec(("near",)),
        }
        constants |= prefixed("trees.", trees.specs(len(self.trained), 1, forest=False)[0])
        state |= {
            "level_P": Spec((2, outputs, 2, 2)),
            "level_a": Spec((2, outputs, 2)),
            "offsets": Spec((2, 2)),
            "running": Spec((4,)),
            "kept_x": Spec((self.kept, "m")),
            "kept_y": Spec((self.kept, 4)),
            "place": Spec((2,), WHOLE, 0, self.kept),
            "miss": Spec((2,), low=0),
            "R": Spec((heads,)),
            "S": Spec((heads,), low=0),
            "L": Spec((heads,), low=0),
            "stack_P": Spec((2, heads, heads)),
            "stack_a": Spec((2, heads)),
            "last_R": Spec((len(MIXTURES),)),
            "last_S": Spec((len(MIXTURES),), low=0),
            "loss": Spec((2 + heads,), low=0),
        }
        for i in range(len(REGRESSIONS)):
            D = "Dl" if i == 0 else "D"
            state |= {f"regression.{i}.P": Spec((D, D)), f"regression.{i}.M": Spec((len(self.columns(i)), D))}

        def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
            if sizes["Dl"] != sizes["m"] + 1 or sizes["D"] != sizes["m"] + 1 + sizes["r"]:
                return (
                    f"{sizes['Dl']} and {sizes['D']} dimensions of {sizes['m']} columns and {sizes['r']} of the kernel"
                )
            count, place = arrays["place"].tolist()
            if count < self.kept and place != count:
                return f"{count} kept rows, of which the next is {place}"
            if (
                not arrays["settings"][0] > 0
                or not arrays["miss"][0] > 0
                or not arrays["range"][0] < arrays["range"][1]
            ):
                return "a width, a mean miss and a range of y above 0 are needed"
            return next(trees.problems(under("trees.", arrays), sizes, forest=False), None)

        return Layout(constants, state, (consistent,))
