"""Which spaces our own learner has, by name, and what a model of it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.preprocess import parse, target_only_width
from hedgerow.core.registry import of_json
from hedgerow.kernels import SCALE
from hedgerow.learner import (
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
    prefixed,
    under,
)
from hedgerow.ridge import mixture, trees
from hedgerow.ridge.near import INPUT, NearSettings
from hedgerow.ridge.pool import TURN
from hedgerow.ridge.space import PENDING, Settings

SPACES = {
    "kernel": Settings("kernel", lam=0.1, trust=0.3, tau=0.0),
    "white": Settings("white", lam=0.5, trust=0.3, tau=0.5, class_targets=True, pool=0.3, balanced=True),
    "input": Settings("input", lam=0.5, trust=0.3, tau=0.05),
    "free": Settings("free", lam=3.0, trust=0.1, tau=2.0, target_only=True),
    "pca": Settings("pca", lam=1.0, trust=0.3, tau=0.0),
    "recent": Settings("recent", lam=1.0, trust=0.0, tau=3.0, keep=0.85),
}
NEAR = {  # the space whose rows are compared, and how fast a vote falls with the distance
    "near input": ("input", 60.0),
    "near white": ("white", 40.0),
}
FREQUENCIES = "class frequencies"


@dataclass(frozen=True)
class RidgePlan:
    """What a model is made of. Every kind of head in the mixture has a field; its settings name its heads.

    `near` are the local heads, which keep at most `kept` rows of the target. `axes`: a rank of the input was asked for.
    `trees` names the heads of boosting, and those of leaves (`ridge/trees.py`). `sampling` says which heads were fitted
    on a sample of the sources' rows, for people.
    """

    steps: tuple[str, ...]
    spaces: tuple[Settings, ...]
    near: tuple[NearSettings, ...] = ()
    kept: int = 1
    axes: bool = False
    trees: tuple[str, ...] = ()
    sampling: str = ""

    @cached_property
    def heads(self) -> list[str]:
        """The names of all heads, in the order of the mixture: of the regressions, the local ones, those of trees."""
        kinds = [*((each.name, each.heads) for each in self.spaces), *((each.name, each.heads) for each in self.near)]
        kinds += [(trees.LEVEL, self.trees[:1]), *((name, self.trees) for name in trees.KINDS[1:])]
        return [f"{name}: {head}" for name, heads in kinds for head in heads]

    @property
    def own(self) -> int:
        """Columns that nothing is transferred for."""
        return target_only_width(self.steps)

    def own_in(self, space: Settings) -> int:
        """How many of them the rows of a space have: a pool has no rows with these columns."""
        return 0 if space.room else self.own

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RidgePlan:
        """The inverse of `asdict`; a plan whose parts do not fit together is refused."""
        spaces = tuple(of_json(Settings, settings) for settings in data["spaces"])
        near = tuple(of_json(NearSettings, settings) for settings in data["near"])
        plan = of_json(cls, {**data, "spaces": spaces, "near": near})
        plan = replace(plan, steps=parse(plan.steps, internal=True))
        if not plan.spaces or plan.kept < 1:
            raise InputError(f"a model of {len(plan.spaces)} spaces that keeps {plan.kept} rows")
        for space in plan.spaces:
            space.check()
        for each in plan.near:
            if each.of not in range(INPUT, len(plan.spaces)) or each.sharpness <= 0 or not each.heads:
                raise InputError(f"{each} cannot be local heads")
        return plan

    def layout(self) -> Layout:
        """Name, shape, type and range of every array; sizes that the plan does not know are letters."""
        constants, state = common(self.steps, len(self.heads) + 1)
        constants["source.class_totals"] = replace(constants["source.class_totals"], kind=ROUNDED)
        rows = shared = "s" if self.own else "m"
        if self.axes:
            constants["axes"], rows = Spec((shared, "r"), UNHALVED), "r"
        for i, settings in enumerate(self.spaces):
            constants |= prefixed(f"space.{i}.", _constant_specs(i, settings, self, rows))
            state |= prefixed(f"space.{i}.", _state(i, settings))
        state["rows"] = Spec((1,), WHOLE, 0, MOST)
        if self.near:
            own, now = _near(self, rows)
            constants, state = constants | prefixed("near.", own), state | prefixed("near.", now)
        if self.trees:
            own, now = trees.specs(len(self.trees), "K0", forest=True)
            constants, state = constants | prefixed("trees.", own), state | prefixed("trees.", now)
        for name, array in mixture.initial(len(self.heads), 1).items():
            shape: tuple[int | str, ...] = ("K",) if name == "mix.counts" else array.shape
            low = {"mix.counts": 1.0, "mix.members": 0.0}.get(name, -float("inf"))
            state[name] = Spec(shape, low=low)

        def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
            return next(_problems(self, arrays, sizes), None)

        return Layout(constants, state, (not_more_known_before, consistent))


# How large a model may be: `size="full"`, or `size="small"` for thousands of targets.
USUAL = 800  # features up to which more rows of the sources are kept
FEWEST, A_FEATURE = 200, 4  # landmarks of the kernel: at least so many, and so many a feature


@dataclass(frozen=True)
class Size:
    """Bounds on what a model keeps, whatever the data.

    landmarks: of the kernel. white, free, pca: directions of these spaces (`recent` has those of pca). near: features
    up to which local heads compare the input itself; beyond it, rows of `free`. pool, source_rows, target_rows: rows
    that are kept. half: maps are stored in half precision.
    """

    landmarks: int
    white: int
    free: int
    pca: int
    near: int
    pool: int
    source_rows: tuple[int, int]
    target_rows: int
    half: bool = False

    def source_rows_for(self, features: int) -> int:
        """More where there are few features, as a row then costs less.

        >>> [SIZES["full"].source_rows_for(m) for m in (64, 400, 800, 1024)]
        [6000, 4000, 2000, 2000]
        """
        least, most = self.source_rows
        return min(most, max(least, USUAL * least // max(features, 1)))

    def landmarks_for(self, features: int) -> int:
        """Fewer where there are few features: second-degree features of them are soon spanned.

        >>> [SIZES["full"].landmarks_for(m) for m in (10, 64, 800)]
        [200, 256, 1000]
        """
        return min(self.landmarks, max(FEWEST, A_FEATURE * features))


SIZES = {
    "full": Size(1000, white=500, free=300, pca=100, near=1024, pool=1000, source_rows=(2000, 6000), target_rows=1000),
    "small": Size(
        160, white=128, free=64, pca=16, near=64, pool=200, source_rows=(640, 640), target_rows=200, half=True
    ),
}


def size_of(name: str | None) -> Size:
    """By name; None is the full one."""
    if name is not None and name not in SIZES:
        raise unknown("size", name, list(SIZES))
    return SIZES[name or "full"]


def _constant_specs(i: int, settings: Settings, plan: RidgePlan, rows: str) -> dict[str, Spec]:
    d, q0, L, e = f"d{i}", f"q0_{i}", f"L{i}", _mapped(plan, i)
    specs = {
        "widths": Spec((len(settings.heads),), WHOLE, 0),
        "prior.P": Spec((f"tri{i}",), needed=settings.keep < 1),
        "prior.M": Spec((d, q0), needed=settings.keep < 1),
    }
    if settings.class_targets:
        specs["targets"] = Spec(("K0", q0))
    if settings.map in ("A", "axes"):
        specs[settings.map] = Spec((rows, e), ROUNDED)
    elif settings.map == "landmarks":
        specs["landmarks"] = Spec((e, rows), ROUNDED)
    elif settings.map == "landmarks+A":
        specs |= {"landmarks": Spec((L, rows), ROUNDED), "A": Spec((L, e), ROUNDED)}
    if settings.room:
        specs |= {"prior.U": Spec((f"u0_{i}", d), ROUNDED, needed=False), "counts": Spec(("K0",), low=0)}
    return specs


def _mapped(plan: RidgePlan, i: int) -> str:
    """The letter of the dimension behind the map of space i: less than the space has, with target-only columns."""
    return f"e{i}" if plan.own_in(plan.spaces[i]) else f"d{i}"


def _state(i: int, settings: Settings) -> dict[str, Spec]:
    d, q, u, heads = f"d{i}", f"q{i}", f"u{i}", len(settings.heads)
    specs = {"P": Spec((f"tri{i}",), needed=False), "M": Spec((d, q), needed=False)}
    specs |= {"G": Spec((f"pending{i}", d), needed=False), "E": Spec((f"pending{i}", q), needed=False)}
    if not settings.room:
        return specs
    specs |= {"U": Spec((u, d), ROUNDED, needed=False), "labels": Spec((u, heads), WHOLE, 0, "K")}
    specs |= {"leverage": Spec((u,), SINGLE), "at": Spec((2,), WHOLE, 0)}
    specs |= {"waiting": Spec((f"waiting{i}", d), ROUNDED), "counts": Spec(("K",), low=0), "bias": Spec((heads, "K"))}
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


def _problems(plan: RidgePlan, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> Iterator[str]:
    """What the shapes alone do not say; one is looked for if those before it are not there."""
    if not arrays["mix.members"].sum() > 0:
        yield "'mix.members': weights must sum to more than 0"
    if plan.own and sizes["s"] + plan.own != sizes["m"]:
        yield f"{sizes['s']} shared columns and {plan.own} of the target only, of {sizes['m']}"
    rows, extra = sizes["r" if plan.axes else "s" if plan.own else "m"], sizes["K"] - sizes["K0"]
    for i, settings in enumerate(plan.spaces):
        own = under(f"space.{i}.", arrays)
        widths, d = own["widths"].tolist(), sizes[f"d{i}"]
        columns, more = sizes.get(_mapped(plan, i), 0) if settings.map else rows, plan.own_in(settings)
        q = sum(widths) + extra * len(widths)
        if sizes.get(f"q0_{i}", sum(widths)) != sum(widths) or sizes.get(f"q{i}", q) != q:
            yield f"space {i}: heads of {widths} columns, and {extra} new classes, in other weights"
        if not settings.class_targets and any(width != sizes["K0"] for width in widths):
            yield f"space {i}: one column a class is needed, not {widths}"
        if ("P" in own) != ("M" in own) or not ({"P", "M"} <= own.keys() or {"prior.P", "prior.M"} <= own.keys()):
            yield f"space {i}: neither a prior nor what became of it"
        if extra and "M" not in own:
            yield f"space {i}: a prior does not know of new classes"
        if d != columns + more:
            yield f"space {i}: {d} dimensions of {columns} columns and {more} target-only"
        if sizes[f"tri{i}"] != d * (d + 1) // 2:
            yield f"space {i}: a covariance of {sizes[f'tri{i}']} numbers for {d} dimensions"
        if ("G" in own) != ("E" in own) or sizes.get(f"pending{i}", 0) > PENDING:
            yield f"space {i}: {sizes[f'pending{i}']} pending rows"
        if settings.room:
            U = own.get("U", own.get("prior.U"))
            if U is None or len(U) != sizes[f"u{i}"] or len(U) > settings.room:
                yield f"space {i}: labels of {sizes[f'u{i}']} rows for a pool of {0 if U is None else len(U)}"
            elif own["at"].max() >= max(len(U), 1):
                yield f"space {i}: a turn beyond the pool's {len(U)} rows"
            elif own["waiting"].dtype != U.dtype or sizes[f"waiting{i}"] > TURN:
                yield f"space {i}: rows that cannot wait for this pool"
    if plan.near:
        expected = sizes["n"] + 1 if sizes["n"] > 1 else 1
        if any(len(each.heads) != expected for each in plan.near):
            yield f"{[len(each.heads) for each in plan.near]} local heads of {sizes['n']} sources"
        kept, place = sizes["kept"], arrays["near.at"][0]
        if kept > plan.kept or place >= plan.kept or (kept < plan.kept and place != kept):
            yield f"{kept} kept rows, of which the next is {place}"
    if plan.trees:
        if len(plan.trees) != (sizes["n"] + 1 if sizes["n"] > 1 else 1):
            yield f"{len(plan.trees)} heads of trees of {sizes['n']} sources"
        yield from trees.problems(under("trees.", arrays), sizes, forest=True)
