"""Files of schema 3 read as if they were of schema 4: our own learner had two regressions in a space with a pool.

The one that carried the pool goes on, without the other; what it predicts is the same. Local heads it has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import array_digest
from hedgerow.core.errors import InputError
from hedgerow.core.linalg import upper_of

Arrays = dict[str, Array]
CONSTANT, STATE = "constants/", "state/"
ROOM = 1000  # of a pool; more rows than that keep their places


def upgraded(header: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays as schema 4 has them."""
    header = header | {"params": header["params"] | {"size": None}}
    if header["learner"] != "ridge":
        return header, arrays
    if not header["constants_inside"]:
        raise InputError(
            "a state without its constants, of schema 3: load the model that it was saved from, or fit again"
        )
    constants = {name[len(CONSTANT) :]: array for name, array in arrays.items() if name.startswith(CONSTANT)}
    state = {name[len(STATE) :]: array for name, array in arrays.items() if name.startswith(STATE)}
    plan = dict(header["plan"])
    plan["maps"] = ["A" if kind == "H" else kind for kind in plan["maps"]]
    plan["rooms"], pooled = [], plan.pop("pooled")
    for i, settings in enumerate(plan["spaces"]):
        own = f"space.{i}."
        fixed, left = (
            {n[len(own) :]: side.pop(n) for n in list(side) if n.startswith(own)} for side in (constants, state)
        )
        plan["rooms"].append(max(ROOM, len(fixed["U"])) if pooled[i] else 0)
        fixed, left = _space(settings, pooled[i], fixed, left)
        constants |= {own + name: array for name, array in fixed.items()}
        state |= {own + name: array for name, array in left.items()}
    state["rows"] = state["seen"].copy()
    digests = {name: array_digest(array) for name, array in sorted(constants.items())}
    header |= {"plan": plan | {"near": [], "kept": 1}, "constants": digests}
    both = {CONSTANT + name: array for name, array in constants.items()}
    return header, both | {STATE + name: array for name, array in state.items()}


def _space(settings: dict[str, Any], pooled: bool, old: Arrays, state: Arrays) -> tuple[Arrays, Arrays]:
    """Constants and state of one space."""
    fixed: Arrays = {name: old[name] for name in ("A", "landmarks", "widths", "counts") if name in old}
    if "H" in old:
        fixed["A"] = old["H"]
    if settings["class_targets"]:
        fixed["targets"] = old["targets"]
    from_ = "pool." if pooled else ""
    left: Arrays = {}
    for name in ("P", "M"):
        if f"{from_}prior.{name}" in old:
            fixed[f"prior.{name}"] = old[f"{from_}prior.{name}"]
        if f"{from_}{name}" in state:
            left[name] = state[f"{from_}{name}"].copy()
    if f"{from_}G" in state:
        G, E = state[f"{from_}G"], state[f"{from_}E"]
        P = left.get("P", fixed.get("prior.P"))
        M = left.get("M", fixed.get("prior.M"))
        if P is None or M is None or G.shape != (len(E), len(P)):
            raise InputError("pending rows of nothing")
        left |= {"P": P - G.T @ G, "M": M + G.T @ E}
    if pooled:
        left |= _pool(settings, old, state, left.get("P", fixed.get("prior.P")))
        fixed["prior.U"] = old["U"]
    for part, name in ((fixed, "prior.P"), (left, "P")):
        if name in part:
            part[name] = upper_of(part[name])
    return fixed, left


def _pool(settings: dict[str, Any], old: Arrays, state: Arrays, P: Array | None) -> Arrays:
    U = old["U"]
    if P is None or P.shape != (U.shape[1], U.shape[1]):
        raise InputError("a pool without a regression")
    full = np.triu(P) + np.triu(P, 1).T
    leverage = settings["pool"] * np.einsum("ij,ij->i", U @ full, U)
    found = {"labels": state["labels"], "leverage": leverage.astype(np.float32), "at": np.zeros(2, np.int64)}
    found["waiting"] = np.zeros((0, U.shape[1]), U.dtype)
    if settings["balanced"]:
        late = np.bincount(state["late.y"], minlength=len(state["counts"]))
        found |= {"counts": state["counts"] + late, "bias": state["bias"]}
    return found
