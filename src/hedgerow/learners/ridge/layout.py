"""The arrays of our own learner. Letters: d_i dimensions of space i, q_i weights of all its heads side by side.

| constants                     | shape         | what it is                                                        |
|-------------------------------|---------------|-------------------------------------------------------------------|
| `source.*`                    | n x ..        | moments of each source                                            |
| `axes`                        | m x r         | leading directions of the input, where a rank was asked for       |
| `space.i.A`, `axes`, `landmarks` | ..         | the map of the space                                              |
| `space.i.widths`, `targets`   | h, K0 x q0    | columns of each head; class targets, where they are class means   |
| `space.i.prior.P`, `prior.M`  | d^2/2, d x q0 | where the regression starts: upper half of the covariance, weights |
| `space.i.prior.U`             | u x d         | where the pool starts                                             |
| `space.i.counts`              | K0            | rows of each class in the sources                                 |
| `near.y`, `domain`, `weight`  | n             | kept rows of the sources: class, source, how much it counts       |
| `near.i.rows`                 | n x d         | these rows as unit vectors in whole numbers                       |

| state                         | shape         | what it is                                                        |
|-------------------------------|---------------|-------------------------------------------------------------------|
| `space.i.P`, `M`, `U`         | as the priors | regression and pool, once they have left their prior              |
| `space.i.G`, `E`              | rows x d, q   | pending rows of the regression (`ridge/regression.py`)            |
| `space.i.labels`, `leverage`  | u x h, u      | the pool's labels, and h of each row (`ridge/pool.py`)            |
| `space.i.at`                  | 2             | whose turn it is in the pool, and who came first                  |
| `space.i.waiting`             | rows x d      | rows without a label that join the pool at its next turn          |
| `space.i.counts`, `bias`      | K, h x K      | labels of each class so far, what makes the pool's labels balanced |
| `near.y`, `weight`, `i.rows`  | r x ..        | kept rows of the target                                           |
| `near.at`                     | 1             | the place of the next one                                         |
| `rows`                        | 1             | rows learned so far, with a label or without                      |
| `mix.*`                       | ..            | `ridge/mixture.py`                                                |
| `target.*`, `pre.i.*`, counters | ..          | as every learner                                                  |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hedgerow.core.arrays import Array
from hedgerow.kernels.common import SCALE
from hedgerow.learners.layout import (
    MOST,
    ROUNDED,
    SHORT,
    SINGLE,
    UNHALVED,
    WHOLE,
    Layout,
    Spec,
    common,
    not_more_known_before,
)
from hedgerow.learners.ridge import mixture
from hedgerow.learners.ridge.plan import INPUT, RidgePlan
from hedgerow.learners.ridge.pool import TURN
from hedgerow.learners.ridge.space import PENDING, Settings


def layout(plan: RidgePlan) -> Layout:
    """By the plan; sizes that it does not know are letters."""
    constants, state = common(plan.steps, len(plan.heads) + 1)
    constants["source.class_totals"] = replace(constants["source.class_totals"], kind=ROUNDED)
    rows = shared = "s" if plan.own else "m"
    if plan.axes:
        constants["axes"], rows = Spec((shared, "r"), UNHALVED), "r"
    for i, settings in enumerate(plan.spaces):
        own = _constants(i, settings, plan, rows)
        constants |= {f"space.{i}.{name}": spec for name, spec in own.items()}
        own = _state(i, settings, plan.heads_of[i], plan.rooms[i])
        state |= {f"space.{i}.{name}": spec for name, spec in own.items()}
    state["rows"] = Spec((1,), WHOLE, 0, MOST)
    if plan.near:
        own, now = _near(plan, rows)
        constants |= {f"near.{name}": spec for name, spec in own.items()}
        state |= {f"near.{name}": spec for name, spec in now.items()}
    for name, array in mixture.initial(len(plan.heads), 1).items():
        shape: tuple[int | str, ...] = ("K",) if name == "mix.counts" else array.shape
        low = {"mix.counts": 1.0, "mix.members": 0.0}.get(name, -float("inf"))
        state[name] = Spec(shape, low=low)

    def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
        if not arrays["mix.members"].sum() > 0:
            return "'mix.members' has nobody to believe"
        if plan.own and sizes["s"] + plan.own != sizes["m"]:
            return f"{sizes['s']} columns and {plan.own} beside them, of {sizes['m']}"
        for i, settings in enumerate(plan.spaces):
            broken = _inconsistent(i, settings, plan, arrays, sizes)
            if broken:
                return f"space {i}: {broken}"
        return _near_inconsistent(plan, arrays, sizes) if plan.near else None

    return Layout(constants, state, (not_more_known_before, consistent))


def _constants(i: int, settings: Settings, plan: RidgePlan, rows: str) -> dict[str, Spec]:
    map_, heads, room = plan.maps[i], plan.heads_of[i], plan.rooms[i]
    d, q0, L, e = f"d{i}", f"q0_{i}", f"L{i}", _mapped(plan, i)
    specs = {
        "widths": Spec((heads,), WHOLE, 0),
        "prior.P": Spec((f"tri{i}",), needed=settings.keep < 1),
        "prior.M": Spec((d, q0), needed=settings.keep < 1),
    }
    if settings.class_targets:
        specs["targets"] = Spec(("K0", q0))
    if map_ in ("A", "axes"):
        specs[map_] = Spec((rows, e), ROUNDED)
    elif map_ == "landmarks":
        specs["landmarks"] = Spec((e, rows), ROUNDED)
    elif map_ == "landmarks+A":
        specs |= {"landmarks": Spec((L, rows), ROUNDED), "A": Spec((L, e))}
    if room:
        specs["prior.U"] = Spec((f"u0_{i}", d), ROUNDED, needed=False)
        if settings.balanced:
            specs["counts"] = Spec(("K0",), low=0)
    return specs


def _mapped(plan: RidgePlan, i: int) -> str:
    """The letter of the dimension behind the map of space i: less than the space has, where columns stand beside."""
    return f"e{i}" if plan.own_in(i) else f"d{i}"


def _state(i: int, settings: Settings, heads: int, room: int) -> dict[str, Spec]:
    d, q, u = f"d{i}", f"q{i}", f"u{i}"
    specs = {"P": Spec((f"tri{i}",), needed=False), "M": Spec((d, q), needed=False)}
    specs |= {"G": Spec((f"pending{i}", d), needed=False), "E": Spec((f"pending{i}", q), needed=False)}
    if not room:
        return specs
    specs |= {"U": Spec((u, d), ROUNDED, needed=False), "labels": Spec((u, heads), WHOLE, 0, "K")}
    specs |= {"leverage": Spec((u,), SINGLE), "at": Spec((2,), WHOLE, 0)}
    specs["waiting"] = Spec((f"waiting{i}", d), ROUNDED)
    if settings.balanced:
        specs |= {"counts": Spec(("K",), low=0), "bias": Spec((heads, "K"))}
    return specs


def _near(plan: RidgePlan, rows: str) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """Constants and state of the local heads."""
    constants = {
        "y": Spec(("near",), WHOLE, 0, "K0"),
        "domain": Spec(("near",), WHOLE, 0, "n"),
        "weight": Spec(("near",), low=0),
    }
    state = {"y": Spec(("kept",), WHOLE, 0, "K"), "weight": Spec(("kept",), low=0), "at": Spec((1,), WHOLE, 0)}
    for i, settings in enumerate(plan.near):
        d = rows if settings.of == INPUT else _mapped(plan, settings.of)
        constants[f"{i}.rows"] = Spec(("near", d), SHORT, -SCALE, SCALE)
        state[f"{i}.rows"] = Spec(("kept", d), SHORT, -SCALE, SCALE)
    return constants, state


def _inconsistent(
    i: int, settings: Settings, plan: RidgePlan, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> str | None:
    """What the shapes alone do not say."""
    widths, extra = arrays[f"space.{i}.widths"], sizes["K"] - sizes["K0"]
    q0, rows = int(widths.sum()), sizes["r" if plan.axes else "s" if plan.own else "m"]
    if sizes.get(f"q0_{i}", q0) != q0:
        return f"heads of {widths.tolist()} columns in {sizes[f'q0_{i}']}"
    if not settings.class_targets and any(width != sizes["K0"] for width in widths.tolist()):
        return f"one column a class is needed, not {widths.tolist()}"
    if sizes.get(f"q{i}", q0 + extra * len(widths)) != q0 + extra * len(widths):
        return f"weights of {sizes[f'q{i}']} columns, not {q0 + extra * len(widths)}"
    have = [f"space.{i}.{name}" in arrays for name in ("P", "M")]
    prior = [f"space.{i}.prior.{name}" in arrays for name in ("P", "M")]
    if have[0] != have[1] or not (all(have) or all(prior)):
        return "neither a prior nor what became of it"
    if extra and not all(have):
        return "a prior does not know of new classes"
    d = sizes[f"d{i}"]
    if plan.maps[i] == "" and d != rows + plan.own_in(i):
        return f"{d} dimensions of {rows} features"
    if plan.maps[i] and sizes[_mapped(plan, i)] + plan.own_in(i) != d:
        return f"{d} dimensions of {sizes[_mapped(plan, i)]} behind the map and {plan.own_in(i)} beside"
    if sizes[f"tri{i}"] != d * (d + 1) // 2:
        return f"a covariance of {sizes[f'tri{i}']} numbers for {d} dimensions"
    if (f"space.{i}.G" in arrays) != (f"space.{i}.E" in arrays):
        return "half of the pending rows"
    if sizes.get(f"pending{i}", 0) > max(TURN, PENDING):
        return f"{sizes[f'pending{i}']} pending rows"
    return _pool_inconsistent(i, plan.rooms[i], arrays, sizes) if plan.rooms[i] else None


def _pool_inconsistent(i: int, room: int, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
    own = f"space.{i}."
    U = arrays.get(own + "U", arrays.get(own + "prior.U"))
    if U is None or len(U) != sizes[f"u{i}"] or len(U) > room:
        return f"labels of {sizes[f'u{i}']} rows for a pool of {None if U is None else len(U)}"
    if arrays[own + "at"].max() >= max(len(U), 1):
        return f"a turn beyond the pool's {len(U)} rows"
    if arrays[own + "waiting"].dtype != U.dtype or sizes[f"waiting{i}"] > TURN:
        return "rows that cannot wait for this pool"
    return None


def _near_inconsistent(plan: RidgePlan, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
    own = len(plan.heads) - sum(plan.heads_of)
    sources = sizes["n"]
    if own != len(plan.near) * (sources + 1 if sources > 1 else 1):
        return f"{own} local heads of {sources} sources"
    if sizes["kept"] > plan.kept or arrays["near.at"][0] >= plan.kept:
        return f"{sizes['kept']} kept rows, of which the next is {arrays['near.at'][0]}"
    if sizes["kept"] < plan.kept and arrays["near.at"][0] != sizes["kept"]:
        return "a gap in the kept rows"
    return None
