"""Which spaces our own learner has, by name, and what a model of it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hedgerow.core import records
from hedgerow.core.arrays import Array
from hedgerow.core.constants import MOST, ROUNDED, SHORT, SINGLE, WHOLE, Spec
from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import parse, target_only_width
from hedgerow.kernels import PENDING, SCALE, TEMPERATURES, TURN
from hedgerow.learner import (
    Layout,
    common,
    not_more_known_before,
    prefixed,
    under,
)
from hedgerow.ridge import adapted, grown, trees
from hedgerow.ridge.adapted import GivenModel
from hedgerow.ridge.near import INPUT, NearSettings
from hedgerow.ridge.space import OWN_MAP, Settings

SPACES = {
    "kernel": Settings("kernel", lam=0.1, trust=0.3, tau=0.0),
    "input": Settings("input", lam=0.5, trust=0.3, tau=0.05),
    "white": Settings("white", lam=0.5, trust=0.3, tau=0.5, class_targets=True, pool=0.3),
    "free": Settings("free", lam=3.0, trust=0.1, tau=2.0),
    "fading": Settings("fading", lam=3.0, trust=0.0, tau=2.0, keep=0.85),
}
NEAR = "near input"  # the local heads
SHARPNESS = 60.0  # how fast a vote falls with the distance
FREQUENCIES = "class frequencies"
LAST_LABEL = "last label"
INTERNAL = ("running", "G", "E", "leaves")  # of a record: a model has them in another form, or not


@dataclass(frozen=True)
class RidgePlan:
    """What a model is made of. Every kind of head in the mixture has a field; its settings name its heads.

    `near` are the local heads, which keep at most `kept` rows of the target. `axes`: a rank of the input was asked for.
    `trees` names the heads of boosting, and those of leaves (`ridge/trees.py`). `sampling` says which heads were fitted
    on a sample of the sources' rows, for people. `grown`: a head of trees of the target's own rows (`ridge/grown.py`).
    `given`: models of the user's own, of which rows have `said` further numbers (`ridge/adapted.py`).
    """

    steps: tuple[str, ...]
    spaces: tuple[Settings, ...]
    near: tuple[NearSettings, ...] = ()
    kept: int = 1
    axes: bool = False
    trees: tuple[str, ...] = ()
    sampling: str = ""
    grown: bool = False
    given: tuple[GivenModel, ...] = ()

    @cached_property
    def heads(self) -> list[str]:
        """The names of all heads, in the mixture's order: of regressions, local ones, of trees, the last label."""
        kinds = [
            *((each.name, each.heads) for each in self.spaces),
            *((each.name, each.heads) for each in self.near),
        ]
        kinds += [(trees.LEVEL, self.trees[:1]), *((name, self.trees) for name in trees.KINDS[1:])]
        inside = [*(f"{name}: {head}" for name, heads in kinds for head in heads), LAST_LABEL]
        return [*inside, *self.outside]

    @property
    def outside(self) -> list[str]:
        """The names of the last heads, whose scores are handed to the compiled step."""
        given = [head for model in self.given for head in model.heads]
        return [*given, *([grown.HEAD] if self.grown else [])]

    @property
    def said(self) -> int:
        """Numbers behind those of a row: what models of the user's own say of it."""
        return sum(len(model.codes) for model in self.given)

    @property
    def sizes(self) -> dict[str, int]:
        """Of a record, as far as the plan knows them (`kernels.ridge.Record`)."""
        heads = len(self.heads)
        return {"experts": heads * TEMPERATURES + 1, "features": heads + 2, "tallied": heads + 1}

    @property
    def own(self) -> int:
        """Columns that nothing is transferred for."""
        return target_only_width(self.steps)

    def own_in(self, space: Settings) -> int:
        """How many of them the rows of a space have: a pool has no rows with these columns."""
        return 0 if space.room else self.own

    def __post_init__(self) -> None:
        parse(self.steps, internal=True)
        if not self.spaces or self.kept < 1 or len(self.near) > 1 or (self.trees and not self.near):
            raise InputError(
                f"a model of {len(self.spaces)} spaces and {len(self.near)} kinds of local heads that keeps "
                f"{self.kept} rows"
            )
        for i, space in enumerate(self.spaces):
            space.check(i)
        for each in self.near:
            if (
                each.of not in range(INPUT, len(self.spaces))
                or each.sharpness <= 0
                or not each.heads
            ):
                raise InputError(f"{each} cannot be local heads")

    def layout(self) -> Layout:
        """Name, shape, type and range of every array; sizes that the plan does not know are letters."""
        from hedgerow.kernels.ridge import Record

        constants, state = common(self.steps, len(self.heads) + 1)
        constants["source.totals"] = replace(constants["source.totals"], kind=ROUNDED)
        rows = shared = "s" if self.own else "m"
        if self.axes:
            constants["axes"] = Spec((shared, "r"), ROUNDED)
            rows = "r"
        for i, settings in enumerate(self.spaces):
            constants |= prefixed(f"space.{i}.", _constant_specs(i, settings, self, rows))
            state |= prefixed(f"space.{i}.", _state(i, settings))
        compared: int | str = 0
        for near in self.near:
            compared = rows if near.of == INPUT else _mapped(self, near.of)
            constants |= prefixed("near.", _near(compared))
        names = {"room": "kept", "W": compared, "T": "1+K", "t": "m", "one": 1}
        record = records.specs(Record, "", **self.sizes | names)
        state |= {name: spec for name, spec in record.items() if name not in INTERNAL}
        if self.trees:
            own, now = trees.specs(len(self.trees), "K0", forest=True)
            constants |= prefixed("trees.", own)
            state |= prefixed("trees.", now)
        if self.grown:
            own, now = grown.specs()
            constants |= prefixed("grown.", own)
            state |= prefixed("grown.", now)
        if self.given:
            state |= prefixed("given.", adapted.specs(len(self.given)))

        def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
            return next(_problems(self, arrays, sizes), None)

        return Layout(constants, state, (not_more_known_before, consistent))


# Bounds on what a model keeps, whatever the data.
LANDMARKS = 1000  # of the kernel,
FEWEST = 200  # but at least so many,
A_FEATURE = 4  # and so many a feature: second-degree features of few are soon spanned
WHITE = 500  # directions of `white`
FREE = 300  # and of `free`
NEAR_FEATURES = 1024  # beyond, local heads compare rows of `free` in place of the input
POOL = 1000  # rows without a label
TARGET_ROWS = 1000  # that local heads keep
SOURCE_ROWS = 2000  # that they keep,
MOST_SOURCE_ROWS = 6000  # or up to so many where there are few features, as a row then costs less
USUAL = 800  # features up to which there are more than SOURCE_ROWS


def source_rows_for(features: int) -> int:
    """How many rows of the sources local heads keep.

    >>> [source_rows_for(m) for m in (64, 400, 800, 1024)]
    [6000, 4000, 2000, 2000]
    """
    wanted = USUAL * SOURCE_ROWS // max(features, 1)
    return min(MOST_SOURCE_ROWS, max(SOURCE_ROWS, wanted))


def landmarks_for(features: int) -> int:
    """How many landmarks the kernel has.

    >>> [landmarks_for(m) for m in (10, 64, 800)]
    [200, 256, 1000]
    """
    return min(LANDMARKS, max(FEWEST, A_FEATURE * features))


def _constant_specs(i: int, settings: Settings, plan: RidgePlan, rows: str) -> dict[str, Spec]:
    d = f"d{i}"
    q0 = f"q0_{i}"
    L = f"L{i}"
    e = _mapped(plan, i)
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
        specs |= {
            "prior.U": Spec((f"u0_{i}", d), ROUNDED, needed=False),
            "counts": Spec(("K0",), low=0),
        }
    return specs


def _mapped(plan: RidgePlan, i: int) -> str:
    """The letter of the dimension behind the map of space i: less than the space has, with target-only columns."""
    return f"e{i}" if plan.own_in(plan.spaces[i]) else f"d{i}"


def _state(i: int, settings: Settings) -> dict[str, Spec]:
    d = f"d{i}"
    q = f"q{i}"
    u = f"u{i}"
    heads = len(settings.heads)
    specs = {"P": Spec((f"tri{i}",), needed=False), "M": Spec((d, q), needed=False)}
    specs |= {
        "G": Spec(("pending", d), needed=False),
        "E": Spec(("pending", q), needed=False),
    }
    if not settings.room:
        return specs
    specs |= {"U": Spec((u, d), ROUNDED, needed=False), "labels": Spec((u, heads), WHOLE, 0, "K")}
    specs |= {"leverage": Spec((u,), SINGLE), "at": Spec((2,), WHOLE, 0)}
    specs |= {
        "waiting": Spec((f"waiting{i}", d), ROUNDED),
        "bias": Spec((heads, "K")),
    }
    return specs


def _near(compared: int | str) -> dict[str, Spec]:
    """The kept rows of the sources, of so many numbers."""
    return {
        "rows": Spec((compared, "near"), SHORT, -SCALE, SCALE),
        "y": Spec(("near",), WHOLE, 0, "K0"),
        "starts": Spec(("1+n",), WHOLE, 0, MOST),
        "weight": Spec(("near",), low=0),
    }


def _problems(
    plan: RidgePlan, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> Iterator[str]:
    """What the shapes alone do not say; one is looked for if those before it are not there."""
    if plan.own and sizes["s"] + plan.own != sizes["m"]:
        yield f"{sizes['s']} shared columns and {plan.own} of the target only, of {sizes['m']}"
    rows = sizes["r" if plan.axes else "s" if plan.own else "m"]
    extra = sizes["K"] - sizes["K0"]
    count, place, _, pending, _ = arrays["counters"].tolist()
    for i, settings in enumerate(plan.spaces):
        own = under(f"space.{i}.", arrays)
        widths = own["widths"].tolist()
        d = sizes[f"d{i}"]
        mapped = i if settings.of == OWN_MAP else settings.of
        columns = sizes.get(_mapped(plan, mapped), 0) if plan.spaces[mapped].map else rows
        more = plan.own_in(settings)
        q = sum(widths) + extra * len(widths)
        if sizes.get(f"q0_{i}", sum(widths)) != sum(widths) or sizes.get(f"q{i}", q) != q:
            yield f"space {i}: heads of {widths} columns, and {extra} new classes, in other weights"
        if not settings.class_targets and any(width != sizes["K0"] for width in widths):
            yield f"space {i}: one column a class is needed, not {widths}"
        if ("P" in own) != ("M" in own) or not (
            {"P", "M"} <= own.keys() or {"prior.P", "prior.M"} <= own.keys()
        ):
            yield f"space {i}: neither a prior nor what became of it"
        if extra and "M" not in own:
            yield f"space {i}: a prior does not know of new classes"
        if d != columns + more:
            yield f"space {i}: {d} dimensions of {columns} columns and {more} target-only"
        if sizes[f"tri{i}"] != d * (d + 1) // 2:
            yield f"space {i}: a covariance of {sizes[f'tri{i}']} numbers for {d} dimensions"
        there = ("G" in own, "E" in own) == (pending > 0,) * 2
        if not there or not sizes.get("pending", 0) == pending < PENDING:
            yield f"space {i}: pending rows that are not those of the other spaces, or too many"
        if settings.room:
            U = own.get("U", own.get("prior.U"))
            if U is None or len(U) != sizes[f"u{i}"] or len(U) > settings.room:
                yield f"space {i}: labels of {sizes[f'u{i}']} rows for a pool of {0 if U is None else len(U)}"
            elif own["at"].max() >= max(len(U), 1):
                yield f"space {i}: a turn beyond the pool's {len(U)} rows"
            elif own["waiting"].dtype != U.dtype or sizes[f"waiting{i}"] > TURN:
                yield f"space {i}: rows that cannot wait for this pool"
    repeats, others, last = arrays["mix.order"]
    if min(repeats, others) < 1 or last != int(last) or last >= sizes["K"]:
        yield f"{repeats} labels like the last, {others} other ones, class {last} as the last"
    if plan.near:
        expected = sizes["n"] + 1 if sizes["n"] > 1 else 1
        if any(len(each.heads) != expected for each in plan.near):
            yield f"{[len(each.heads) for each in plan.near]} local heads of {sizes['n']} sources"
        starts = arrays["near.starts"]
        if starts[0] or (np.diff(starts) < 0).any() or starts[-1] != sizes["near"]:
            yield f"kept rows of the sources that start at {starts.tolist()}"
    most = plan.kept if plan.near else 0
    fits = count == sizes["kept"] <= most and (place == count or count == most)
    if not fits or (place and place >= most):
        yield f"{count} counted and {sizes['kept']} kept rows, of which the next is {place}"
    if plan.trees:
        if len(plan.trees) != (sizes["n"] + 1 if sizes["n"] > 1 else 1):
            yield f"{len(plan.trees)} heads of trees of {sizes['n']} sources"
        yield from trees.problems(under("trees.", arrays), sizes, forest=True)
    if any(code >= sizes["K"] for model in plan.given for code in model.codes):
        yield f"models that know a class beyond the {sizes['K']}"
    if plan.grown:
        yield from grown.unsound(arrays["grown.spans"], under("grown.", arrays), sizes)
