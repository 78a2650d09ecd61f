"""Model files: arrays in safetensors, everything else in its JSON header. Never pickle, so a file cannot run code."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from hedgerow.align import ALIGNERS
from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.learners.base import OnlineLearner, State
from hedgerow.learners.experts.block_refresh import Refresh
from hedgerow.learners.experts.learner import Expert, Learner, Plan
from hedgerow.learners.ridge.learner import RidgeLearner, RidgePlan
from hedgerow.learners.ridge.space import Settings
from hedgerow.mix import AdaHedge, FixedShare, FixedShareLogLoss, Hedge, LogLoss, LossBased, Mixer, Single, Squint

SCHEMA = 2
RIDGE_SCHEMA = 2  # since when our own learner's arrays are what they are
MIXERS: dict[str, type[Mixer]] = {
    mixer.__name__: mixer
    for mixer in (Hedge, LossBased, LogLoss, AdaHedge, Squint, FixedShare, FixedShareLogLoss, Single)
}


def save(path: str | os.PathLike[str], learner: OnlineLearner, classes: Array, extra: dict[str, Any]) -> None:
    """Write a model; the file appears whole or not at all."""
    from safetensors.numpy import save as serialised

    header = {
        "format": "hedgerow",
        "schema": SCHEMA,
        "plan": plan_to_json(learner.plan),
        "classes": labels_to_json(classes),
        **extra,
    }
    text = json.dumps(header, default=_plain)
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"cannot save to {target}: the folder {target.parent} does not exist")
    arrays = {name: np.ascontiguousarray(array) for name, array in learner.state.items()}
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        with open(temporary, "wb") as file:
            file.write(serialised(arrays, metadata={"hedgerow": text}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> tuple[OnlineLearner, Array, dict[str, Any]]:
    """Read what `save` wrote: learner, classes, and the header."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise InputError(f"no model file at {path}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("hedgerow", "null"))
            if not isinstance(header, dict) or header.get("format") != "hedgerow":
                raise InputError(f"{path} is a safetensors file, but not one that hedgerow wrote")
            if header["schema"] > SCHEMA:
                raise InputError(f"{path} has schema {header['schema']}, this hedgerow reads up to {SCHEMA}: upgrade")
            if "ridge" in header["plan"] and header["schema"] < RIDGE_SCHEMA:
                raise InputError(
                    f"{path} has schema {header['schema']}; of this method, schemas from {RIDGE_SCHEMA} on are read: "
                    "fit it again"
                )
            state = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise InputError(f"{path} is not a model file, or is damaged ({error})") from error
    return learner_of(plan_from_json(header["plan"]), state), labels_from_json(header["classes"]), header


def learner_of(plan: Plan | RidgePlan, state: State) -> OnlineLearner:
    """The learner that a plan is for."""
    return RidgeLearner(plan, state) if isinstance(plan, RidgePlan) else Learner(plan, state)


def plan_to_json(plan: Plan | RidgePlan) -> dict[str, Any]:
    """A plan as plain lists and numbers."""
    out = asdict(plan)
    if isinstance(plan, RidgePlan):
        return {"ridge": out}
    out["mixer"] = {"kind": type(plan.mixer).__name__, **_options(plan.mixer)}
    return out


def plan_from_json(data: dict[str, Any]) -> Plan | RidgePlan:
    """The inverse of `plan_to_json`."""
    if "ridge" in data:
        ridge = data["ridge"]
        spaces = tuple(Settings(**settings) for settings in ridge["spaces"])
        return RidgePlan(tuple(ridge["steps"]), spaces, tuple(ridge["heads"]))
    mixer = dict(data["mixer"])
    kind = mixer.pop("kind")
    if kind not in MIXERS:
        raise InputError(
            f"the model uses the mixer {kind!r}, which is not registered here: hedgerow.estimator.model_file.MIXERS"
        )
    return Plan(
        steps=tuple(data["steps"]),
        experts=tuple(Expert(**expert) for expert in data["experts"]),
        mixer=MIXERS[kind](**mixer),
        rule=data["rule"],
        C=data["C"],
        unit_projection=data["unit_projection"],
        gammas=tuple(data["gammas"]),
        refresh=Refresh(**data["refresh"]) if data["refresh"] else None,
    )


def aligner_to_json(aligner: Any) -> Any:
    """A name stays a name; an object becomes its name and options."""
    if aligner is None or isinstance(aligner, str):
        return aligner
    for name in ALIGNERS:
        if type(aligner) is ALIGNERS[name]:
            return {"name": name, "options": _options(aligner)}
    raise InputError(f"{aligner!r} cannot be saved: register its class with register_aligner(name, cls)")


def aligner_from_json(data: Any) -> Any:
    """The inverse of `aligner_to_json`."""
    if not isinstance(data, dict):
        return data
    cls: Any = ALIGNERS[data["name"]]
    return cls(**data["options"])


def labels_to_json(labels: Array) -> dict[str, Any]:
    """Labels with what is needed to give them back as they were."""
    return {"dtype": labels.dtype.str if labels.dtype.kind != "O" else "O", "values": labels.tolist()}


def labels_from_json(data: dict[str, Any]) -> Array:
    """The inverse of `labels_to_json`."""
    labels = np.empty(len(data["values"]), dtype=object)
    labels[:] = [_tuples(label) for label in data["values"]]
    return labels if data["dtype"] == "O" else labels.astype(np.dtype(data["dtype"]))


def _tuples(value: Any) -> Any:
    """JSON's lists as the tuples they were: a label must be hashable."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """What JSON cannot write: a NumPy number becomes a plain one, an array a list."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise InputError(
        f"{value!r} of type {type(value).__name__} cannot be saved; use labels and options that are text, numbers or "
        "tuples of these"
    )


def _options(part: Any) -> dict[str, Any]:
    if not is_dataclass(part):
        raise InputError(f"{part!r} cannot be saved: make it a dataclass of its options")
    return {f.name: getattr(part, f.name) for f in fields(part)}
