"""Model files: arrays in safetensors, everything else in its JSON header. Never pickle, so a file cannot run code.

A file is believed only as far as it is checked: its digest covers every byte, the plan is read value by value, and
every array's name, shape, type and range follows from the plan before a learner sees it. Anything else "is damaged".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import Constants, array_digest
from hedgerow.core.errors import InputError
from hedgerow.core.labels import labels_from_json, labels_to_json
from hedgerow.learner import LEARNERS, OnlineLearner

SCHEMA = 5
FORMAT = "hedgerow"
CONSTANT, STATE = "constants/", "state/"
NO_DIGEST = "0" * 64  # stands where the digest goes while it is computed
DIGEST = b'"digest":"'


def to_bytes(learner: OnlineLearner, classes: Array, extra: Mapping[str, Any], constants: bool = True) -> bytes:
    """A flushed learner as the content of a file; without its constants only their digest is kept.

    Constants that the state has taken the place of (a prior, once there is something learned) are left out.
    """
    from safetensors.numpy import save

    state = learner.stored()
    kept = _needed(learner, state) if constants else {}
    header = {
        "format": FORMAT,
        "schema": SCHEMA,
        "learner": learner.kind,
        "plan": learner.plan_to_json(),
        "classes": labels_to_json(classes),
        "constants": learner.constants.digests,
        "constants_inside": constants,
        **extra,
    }
    arrays = {CONSTANT + name: array for name, array in kept.items()}
    arrays |= {STATE + name: np.ascontiguousarray(array) for name, array in state.items()}
    text = json.dumps(header, default=_plain, allow_nan=False)
    data = bytearray(_in_order(save(arrays, metadata={"digest": NO_DIGEST, "hedgerow": text})))
    at = data.index(DIGEST + NO_DIGEST.encode()) + len(DIGEST)
    data[at : at + 64] = hashlib.sha256(data).hexdigest().encode()
    return bytes(data)


def _in_order(data: bytes) -> bytes:
    """With the metadata in one order: safetensors writes them in any, and the same model would be other bytes."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def _needed(learner: OnlineLearner, state: Mapping[str, Array]) -> dict[str, Array]:
    specs = learner.layout(learner.plan).constants
    return {
        name: learner.constants.for_kernels(name)
        for name in learner.constants
        if specs[name].needed or name.replace("prior.", "") not in state
    }


Found = tuple[OnlineLearner, Array, dict[str, Any]]  # learner, classes, header


def from_bytes(data: bytes, where: str, constants: Constants | None = None) -> Found:
    """What `to_bytes` made: learner, classes, and the header. `where` names the file in errors."""
    header, arrays = read(data, where)
    try:
        return _learner(header, arrays, constants)
    except _Unusable as error:
        raise InputError(f"{where}: {error}") from error
    except InputError as error:
        raise InputError(f"{where} is damaged, or not a model that this hedgerow can read: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{where} is damaged ({type(error).__name__}: {error})") from error


class _Unusable(InputError):
    """Nothing is wrong with the file itself."""


def read(data: bytes, where: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a file, if its digest is right."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        length = int.from_bytes(data[:8], "little")
        outer = json.loads(data[8 : 8 + length]) if length <= len(data) else {}
        metadata = outer.get("__metadata__") or {}
        header = json.loads(metadata.get("hedgerow", "null"), parse_constant=_not_a_number)
        arrays = load(data)
    except (SafetensorError, ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{where} is not a model file, or is damaged ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{where} is a safetensors file, but not one that hedgerow wrote")
    schema = header.get("schema")
    if schema != SCHEMA:
        remedy = "upgrade" if isinstance(schema, int) and schema > SCHEMA else "fit the model again"
        raise InputError(f"{where} has schema {schema!r}, this hedgerow reads {SCHEMA}: {remedy}")
    if not _digest_is_right(data, str(metadata.get("digest"))):
        raise InputError(f"{where} is damaged: its content is not what was written; use a copy that is whole")
    return header, arrays


def _not_a_number(text: str) -> None:
    raise ValueError(f"{text} in its header")


def _digest_is_right(data: bytes, digest: str) -> bool:
    at = data.find(DIGEST + digest.encode())
    if at < 0 or len(digest) != 64:
        return False
    at += len(DIGEST)
    found = hashlib.sha256(data[:at] + NO_DIGEST.encode() + data[at + 64 :])
    return found.hexdigest() == digest


def _learner(header: dict[str, Any], arrays: dict[str, Array], constants: Constants | None) -> Found:
    name = str(header["learner"])
    try:
        kind = LEARNERS[name]
    except InputError:
        unknown = f"the model is of the kind {name!r}, which is not registered here: import its package first"
        raise _Unusable(unknown) from None
    plan = kind.plan_from_json(header["plan"])
    classes = labels_from_json(header["classes"])
    state = {name[len(STATE) :]: array for name, array in arrays.items() if name.startswith(STATE)}
    inside = {name[len(CONSTANT) :]: array for name, array in arrays.items() if name.startswith(CONSTANT)}
    if len(state) + len(inside) != len(arrays):
        raise InputError("it has arrays that are neither constants nor state")
    given = _constants(header, inside, constants)
    sizes = {"K": len(classes), "m": int(header["n_features"])}
    kind.layout(plan).check({name: given.for_kernels(name) for name in given}, state, sizes)
    return kind(plan, given, {name: np.array(array) for name, array in state.items()}), classes, header


def _constants(header: dict[str, Any], inside: dict[str, Array], given: Constants | None) -> Constants:
    """Those of the file, or those given; they must be the ones that the model was fitted with."""
    expected = dict(header["constants"])
    if not header["constants_inside"]:
        if given is None:
            raise _Unusable(
                "it has a state and no constants; pass constants=, those of the model it was fitted with "
                f"(digest {Constants({}, expected).digest[:12]}..)"
            )
        if given.digests != expected:
            raise _Unusable(
                f"it belongs to other constants (digest {Constants({}, expected).digest[:12]}.., given "
                f"{given.digest[:12]}..)"
            )
        return given
    if given is not None and given.digests == expected and given.complete:
        return given  # one copy in memory for all models
    left_out = {name: digest for name, digest in expected.items() if name not in inside}
    for name, array in inside.items():
        if expected.get(name) != array_digest(array):
            raise InputError(f"the constant {name!r} is not the one it was fitted with")
    return Constants({name: np.array(array) for name, array in inside.items()}, left_out)


def _plain(value: Any) -> Any:
    """What JSON cannot write: a NumPy number becomes a plain one, an array a list."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise InputError(
        f"{value!r} of type {type(value).__name__} cannot be saved; use labels and options that are text, numbers or "
        "tuples of these"
    )


__all__ = ["SCHEMA", "from_bytes", "read", "to_bytes"]
