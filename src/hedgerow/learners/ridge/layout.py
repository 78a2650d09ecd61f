"""The arrays of our own learner. Letters: d_i dimensions of space i, q_i weights of all its heads side by side.

| constants                     | shape         | what it is                                                        |
|-------------------------------|---------------|-------------------------------------------------------------------|
| `source.*`                    | n x ..        | moments of each source                                            |
| `axes`                        | m x r         | leading directions of the input, where a rank was asked for       |
| `space.i.landmarks`, `A`, `H` | ..            | the map of the space                                              |
| `space.i.targets`, `widths`   | K0 x q0, h    | class targets of all heads side by side, the columns of each      |
| `space.i.prior.P`, `prior.M`  | d x d, d x q0 | where the regression starts: covariance and weights               |
| `space.i.U`, `pool.prior.*`   | u x d         | the pool, and where the regression that carries it starts         |
| `space.i.counts`              | K0            | rows of each class in the sources                                 |

| state                         | shape         | what it is                                                        |
|-------------------------------|---------------|-------------------------------------------------------------------|
| `space.i.P`, `M`, `pool.*`    | as the priors | the regression, once it has left its prior                        |
| `space.i.G`, `E`, `pool.*`    | rows x d, q   | pending rows of the regression (`ridge/regression.py`)            |
| `space.i.UM`, `labels`        | u x q, u x h  | what the pool-free weights say of the pool, and its labels        |
| `space.i.late`, `late.*`      | rows x ..     | rows that the pool-free weights learn at the next labelling       |
| `space.i.counts`, `bias`      | K, h x K      | labels of each class so far, what makes the pool's labels balanced |
| `mix.*`                       | ..            | `ridge/mixture.py`                                                |
| `target.*`, `pre.i.*`, counters | ..          | as every learner                                                  |
"""

from __future__ import annotations

from collections.abc import Mapping

from hedgerow.core.arrays import Array
from hedgerow.learners.layout import WHOLE, Layout, Spec, common, not_more_known_before
from hedgerow.learners.ridge import mixture
from hedgerow.learners.ridge.plan import RidgePlan
from hedgerow.learners.ridge.space import RELABEL, Settings

TINY = 1e-300


def layout(plan: RidgePlan) -> Layout:
    """By the plan; sizes that it does not know are letters."""
    constants, state = common(plan.steps, len(plan.heads) + 1)
    rows = "m"
    if plan.axes:
        constants["axes"], rows = Spec(("m", "r")), "r"
    for i, settings in enumerate(plan.spaces):
        own = _constants(i, settings, plan.maps[i], plan.heads_of[i], plan.pooled[i], rows)
        constants |= {f"space.{i}.{name}": spec for name, spec in own.items()}
        own = _state(i, settings, plan.heads_of[i], plan.pooled[i])
        state |= {f"space.{i}.{name}": spec for name, spec in own.items()}
    heads = len(plan.heads)
    for name, array in mixture.initial(heads, 1).items():
        shape: tuple[int | str, ...] = ("K",) if name == "mix.counts" else array.shape
        low = {"mix.counts": 1.0, "mix.members": 0.0}.get(name, -float("inf"))
        state[name] = Spec(shape, low=low)

    def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
        if not arrays["mix.members"].sum() > 0:
            return "'mix.members' has nobody to believe"
        for i, settings in enumerate(plan.spaces):
            broken = _inconsistent(i, settings, plan, arrays, sizes)
            if broken:
                return f"space {i}: {broken}"
        return None

    return Layout(constants, state, (not_more_known_before, consistent))


def _constants(i: int, settings: Settings, map_: str, heads: int, pooled: bool, rows: str) -> dict[str, Spec]:
    d, q0, L = f"d{i}", f"q0_{i}", f"L{i}"
    specs = {
        "targets": Spec(("K0", q0)),
        "widths": Spec((heads,), WHOLE, 0),
        "prior.P": Spec((d, d), needed=settings.keep < 1),
        "prior.M": Spec((d, q0), needed=settings.keep < 1),
    }
    if map_ == "A":
        specs["A"] = Spec((rows, d))
    elif map_ == "H":
        specs["H"] = Spec((rows, rows))
    elif map_ == "landmarks":
        specs["landmarks"] = Spec((d, rows))
    elif map_ == "landmarks+A":
        specs |= {"landmarks": Spec((L, rows)), "A": Spec((L, d))}
    if pooled:
        specs |= {"U": Spec((f"u{i}", d)), "pool.prior.P": Spec((d, d), needed=False)}
        specs["pool.prior.M"] = Spec((d, q0), needed=False)
        if settings.balanced:
            specs["counts"] = Spec(("K0",), low=0)
    return specs


def _state(i: int, settings: Settings, heads: int, pooled: bool) -> dict[str, Spec]:
    d, q, u, late = f"d{i}", f"q{i}", f"u{i}", f"late{i}"
    specs = {"P": Spec((d, d), needed=False), "M": Spec((d, q), needed=False)}
    pending = {"G": Spec((f"pending{i}", d), needed=False), "E": Spec((f"pending{i}", q), needed=False)}
    if not pooled:
        return specs | pending
    specs |= {f"pool.{name}": spec for name, spec in (specs | pending).items()}
    specs |= {"UM": Spec((u, q)), "labels": Spec((u, heads), WHOLE, 0, "K")}
    specs |= {"late": Spec((late, d)), "late.y": Spec((late,), WHOLE, 0, "K"), "late.noise": Spec((late,), low=TINY)}
    if settings.balanced:
        specs |= {"counts": Spec(("K",), low=0), "bias": Spec((heads, "K"))}
    return specs


def _inconsistent(
    i: int, settings: Settings, plan: RidgePlan, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> str | None:
    """What the shapes alone do not say."""
    widths, extra = arrays[f"space.{i}.widths"], sizes["K"] - sizes["K0"]
    q0, d, rows = sizes[f"q0_{i}"], sizes.get(f"d{i}"), sizes["r" if plan.axes else "m"]
    if int(widths.sum()) != q0:
        return f"heads of {widths.tolist()} columns in {q0}"
    if not settings.class_targets and any(width != sizes["K0"] for width in widths.tolist()):
        return f"one column a class is needed, not {widths.tolist()}"
    if sizes.get(f"q{i}", q0 + extra * len(widths)) != q0 + extra * len(widths):
        return f"weights of {sizes[f'q{i}']} columns, not {q0 + extra * len(widths)}"
    if plan.maps[i] in ("", "H") and d not in (None, rows):
        return f"{d} dimensions of {rows} features"
    for prefix in ("", "pool.") if plan.pooled[i] else ("",):
        have = [f"space.{i}.{prefix}{name}" in arrays for name in ("P", "M")]
        prior = [f"space.{i}.{prefix}prior.{name}" in arrays for name in ("P", "M")]
        if have[0] != have[1] or not (all(have) or all(prior)):
            return "neither a prior nor what became of it"
        if extra and not all(have):
            return "a prior does not know of new classes"
    if (f"space.{i}.G" in arrays) != (f"space.{i}.E" in arrays):
        return "half of the pending rows"
    if max(sizes.get(f"pending{i}", 0), sizes.get(f"late{i}", 0)) > RELABEL:
        return f"more than {RELABEL} pending rows"
    return None
