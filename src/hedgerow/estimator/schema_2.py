"""Files of schemas 1 and 2, in which constants and state were one table, read as if they were of schema 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import array_digest
from hedgerow.core.errors import InputError
from hedgerow.learners.readings import CHOICES, reading_of

Arrays = dict[str, Array]
CONSTANT, STATE = "constants/", "state/"
MIXERS = {
    "Hedge": "hedge",
    "LossBased": "loss",
    "LogLoss": "log-loss",
    "AdaHedge": "adahedge",
    "Squint": "squint",
    "FixedShare": "fixed-share",
    "FixedShareLogLoss": "fixed-share-log-loss",
    "Single": "single",
}
READING = (*CHOICES, "lam", "refresh_every")  # parameters that are answers of a reading now
KEPT = ("method", "preprocess", "classes", "dtype", "random_state")


def upgraded(header: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays as schema 3 has them."""
    ridge = "ridge" in header["plan"]
    if ridge and header["schema"] < 2:
        raise InputError("schema 1; of this method, schemas from 2 on are read: fit it again")
    plan, constants, state = (_ridge if ridge else _experts)(header["plan"], dict(arrays))
    for name in list(state):
        scale = name.startswith("pre.") and plan["steps"][int(name.split(".")[1])] == "scale"
        if name.startswith("source.") or scale:
            constants[name] = state.pop(name)
    header = header | {
        "learner": "ridge" if ridge else "experts",
        "plan": plan,
        "constants": {name: array_digest(array) for name, array in sorted(constants.items())},
        "constants_inside": True,
        "params": _parameters(header["params"]),
    }
    every = {CONSTANT + name: array for name, array in constants.items()}
    return header, every | {STATE + name: array for name, array in state.items()}


def _experts(plan: dict[str, Any], state: Arrays) -> tuple[dict[str, Any], Arrays, Arrays]:
    mixer = dict(plan["mixer"])
    frozen = sum(not expert["learns"] for expert in plan["experts"])
    constants: Arrays = {}
    if frozen:
        constants["frozen"] = np.ascontiguousarray(state["W"][:frozen])
    state["W"] = np.ascontiguousarray(state["W"][frozen:])
    spaces = 0
    if "A" in state:
        spaces = len(state["A"])
        A = np.ascontiguousarray(state.pop("A").transpose(1, 0, 2))
        (constants if plan["refresh"] is None else state)["A"] = A
    for name in [name for name in state if name.startswith("landmarks.")]:
        constants[name] = state.pop(name)
    rule = plan["rule"]
    head = {"name": rule, "options": {"rule": rule, "C": plan["C"]}}
    mixer = {"name": MIXERS[mixer.pop("kind")], "options": mixer}
    kept = {name: plan[name] for name in ("steps", "experts", "unit_projection", "gammas", "refresh")}
    shared = [expert | {"space": expert["space"] if spaces > 1 else 0} for expert in kept["experts"]]
    return kept | {"head": head, "mixer": mixer, "spaces": spaces, "experts": shared}, constants, state


def _ridge(old: dict[str, Any], state: Arrays) -> tuple[dict[str, Any], Arrays, Arrays]:
    plan = old["ridge"]
    settings = [dict(each) for each in plan["spaces"]]
    constants: Arrays = {}
    maps, pooled, heads_of = [], [], []
    K = len(state["mix.counts"])
    known = state["source.class_counts"].shape[1]
    for i, each in enumerate(settings):
        each["class_targets"] = each.pop("class_codes")
        own = {name[len(f"space.{i}.") :]: name for name in state if name.startswith(f"space.{i}.")}
        take = {short: state.pop(name) for short, name in own.items()}
        fixed, left = _ridge_space(take, each, K, known)
        constants |= {f"space.{i}.{name}": array for name, array in fixed.items()}
        state |= {f"space.{i}.{name}": array for name, array in left.items()}
        maps.append("+".join(name for name in ("landmarks", "A", "H") if name in fixed))
        pooled.append("U" in fixed)
        heads_of.append(len(fixed["widths"]))
    if "axes" in state:
        constants["axes"] = state.pop("axes")
    made = {"steps": plan["steps"], "spaces": settings, "heads": plan["heads"], "axes": "axes" in constants}
    return made | {"maps": maps, "pooled": pooled, "heads_of": heads_of}, constants, state


def _ridge_space(old: Arrays, settings: dict[str, Any], K: int, known: int) -> tuple[Arrays, Arrays]:
    """A space's arrays: what never changes, and the rest. Classes met later were part of its targets from then on."""
    if known != K:
        raise InputError("sources and model differ in their classes")
    fixed: Arrays = {name: old.pop(name) for name in ("landmarks", "A", "H", "U") if name in old}
    fixed |= {"targets": old.pop("codes"), "widths": old.pop("widths")}
    for name in ("P0", "M0"):
        if name in old:
            fixed[f"prior.{name[0]}"] = old.pop(name)
    if "counts" in old:
        both = old.pop("counts")
        fixed["counts"], old["counts"] = np.ascontiguousarray(both[0]), np.ascontiguousarray(both[1])
    for prefix in ("", "pool."):
        if f"{prefix}waiting" in old:
            n = int(old.pop(f"{prefix}waiting")[0])
            for name in (f"{prefix}G", f"{prefix}E"):
                if not 0 <= n <= len(old[name]):
                    raise InputError(f"{n} pending rows")
                old[name] = np.ascontiguousarray(old[name][:n])
                if not n:
                    del old[name]
    if "late.count" in old:
        n = int(old.pop("late.count")[0])
        if not 0 <= n <= len(old["late"]):
            raise InputError(f"{n} pending rows")
        for name in ("late", "late.y", "late.noise"):
            old[name] = np.ascontiguousarray(old[name][:n])
    return fixed, old


def _parameters(old: dict[str, Any]) -> dict[str, Any]:
    """The estimator's parameters of today; options that the method never read are dropped."""
    from hedgerow.methods import METHODS, Options

    changes = {name: old[name] for name in READING if old.get(name) is not None}
    params = {name: old[name] for name in KEPT} | {"max_classes": None}
    for name in ("aligner", "head", "mixer", "dim", "rank", "C", "mu", "beta", "horizon"):
        params[name] = old.get(name)
    if params["beta"] is not None:
        params["horizon"] = None
    defaults = {"head": "pa1", "dim": 100, "C": 5.0, "mu": 1.0}
    for name, default in defaults.items():
        params[name] = None if params[name] == default else params[name]
    read = METHODS[old["method"]].options(Options(beta=params["beta"], horizon=params["horizon"]))
    for name in defaults.keys() | {"mixer", "aligner", "rank", "beta", "horizon"}:
        params[name] = params[name] if name in read else None
    reading = reading_of(old["reading"], old["method"], **{k: v for k, v in changes.items() if k in read})
    plain = old["reading"] if not reading.changes() else vars(reading) | {"preprocess": list(reading.preprocess)}
    return params | {"reading": plain}
