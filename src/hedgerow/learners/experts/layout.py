"""The arrays of a learner of experts.

| constants       | shape          | what it is                                                                    |
|-----------------|----------------|-------------------------------------------------------------------------------|
| `source.*`      | n x ..         | moments of each source, in the input space of its alignment                   |
| `frozen`        | F x K0 x d     | the source classifiers that do not learn                                      |
| `A`             | m x spaces x d | projections that do not move; over landmarks, as many rows as the most of them |
| `landmarks.i`   | L_i x m        | the landmarks of kernel space i                                               |
| `pre.i.*`       | m              | statistics of the step `scale`                                                |

| state           | shape          | what it is                                                                    |
|-----------------|----------------|-------------------------------------------------------------------------------|
| `W`             | O x K x d      | the weights of the online heads                                               |
| `memory`        | O x ..         | what the head keeps beside W                                                  |
| `A`             | m x spaces x d | projections that follow the labels                                            |
| `expert_loss`   | N              | each expert's loss so far                                                     |
| `mixer.*`       | ..             | what the mixer keeps beside the losses                                        |
| `target.*`      | ..             | moments of the target so far                                                  |
| `pre.i.*`       | m              | running statistics of the preprocessing                                       |
| counters        | 1 or N         | `seen`, `mistakes`, `expert_mistakes`, `mixture_loss`                         |
"""

from __future__ import annotations

from collections.abc import Mapping

from hedgerow.core.arrays import Array
from hedgerow.learners.experts.plan import Plan
from hedgerow.learners.layout import DOUBLE, FLOAT, WHOLE, Layout, Spec, common, not_more_known_before


def layout(plan: Plan) -> Layout:
    """By the plan; sizes that it does not know are letters."""
    N, F = len(plan.experts), plan.frozen
    constants, state = common(plan.steps, N)
    d = "d" if plan.spaces else "m"
    if F:
        constants["frozen"] = Spec((F, "K0", d), FLOAT)
    state["W"] = Spec((N - F, "K", d), FLOAT)
    if plan.spaces:
        side = constants if plan.refresh is None else state
        side["A"] = Spec(("L" if plan.gammas else "m", plan.spaces, d), FLOAT)
    for i in range(len(plan.gammas)):
        constants[f"landmarks.{i}"] = Spec((f"L{i}", "m"), FLOAT)
    for name, array in plan.mixer.start(N).items():
        low = 0.0 if name == "expert_loss" else -float("inf")
        state[name] = Spec(array.shape, WHOLE if array.dtype.kind == "i" else DOUBLE, low)
    memory = plan.head.memory(1)
    if memory is not None:
        state["memory"] = Spec((N - F, *(f"memory{i}" for i in range(memory.ndim))), FLOAT)

    def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
        most = max((sizes[f"L{i}"] for i in range(len(plan.gammas))), default=sizes.get("L", 0))
        if most != sizes.get("L", 0):
            return f"projections of {sizes.get('L')} landmarks, of which there are {most}"
        if plan.refresh is not None and not 1 <= plan.spaces in (1, sizes["n"]):
            return f"{plan.spaces} spaces for {sizes['n']} sources"
        if "memory" in arrays and arrays["memory"].shape[1:] != _shape(plan, arrays["W"]):
            return f"'memory' has the shape {arrays['memory'].shape}"
        return None

    return Layout(constants, state, (not_more_known_before, consistent))


def _shape(plan: Plan, W: Array) -> tuple[int, ...]:
    memory = plan.head.memory(W.shape[2], W.dtype)
    return () if memory is None else memory.shape
