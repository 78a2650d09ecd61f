"""An estimator's parameters to JSON and back: parts and readings by name, or by name and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hedgerow.align import ALIGNERS
from hedgerow.core.errors import InputError
from hedgerow.core.labels import as_labels, labels_from_json, labels_to_json
from hedgerow.core.preprocess import parse
from hedgerow.core.registry import Parts, of_json
from hedgerow.estimator.inputs import given_dtype
from hedgerow.heads import HEADS
from hedgerow.methods import NUMBERS, Reading, check_number, reading_of
from hedgerow.mix import MIXERS
from hedgerow.tables.learning import TableOptions

ASKING = ("fit", "partial_fit", "predict", "predict_proba", "decision_function", "score")
PARTS: dict[str, Parts] = {"aligner": ALIGNERS, "head": HEADS, "mixer": MIXERS}


def to_json(params: Mapping[str, Any]) -> dict[str, Any]:
    """Names stay names, objects become names and options."""
    check(params)
    out = dict(params)
    if out["table"] is not None:
        out["table"] = asdict(TableOptions.of(out["table"]))
    for name, parts in PARTS.items():
        if not (out[name] is None or isinstance(out[name], str)):
            out[name] = parts.to_json(out[name])
    if isinstance(out["reading"], Reading):
        out["reading"] = vars(out["reading"]) | {"preprocess": list(out["reading"].preprocess)}
    if out["classes"] is not None:
        out["classes"] = labels_to_json(as_labels(list(out["classes"]), "classes"))
    return out


def from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `to_json`."""
    out = dict(data)
    for name, parts in PARTS.items():
        if isinstance(out[name], dict):
            out[name] = parts.from_json(out[name])
    if isinstance(out["reading"], dict):
        out["reading"] = of_json(Reading, out["reading"])
    if out["classes"] is not None:
        out["classes"] = labels_from_json(out["classes"]).tolist()
    if isinstance(out["preprocess"], list):
        out["preprocess"] = tuple(out["preprocess"])
    check(out)
    return out


def check(params: Mapping[str, Any]) -> None:
    """Refuse what no parameter can be, whatever the method: it would fail only when it is used."""
    for name in NUMBERS:
        check_number(name, params[name])
    for name in ("method", "reading", "size", "dtype", "preprocess", *PARTS):
        value = params[name]
        if isinstance(value, bool | int | float | list | dict):
            raise InputError(f"{name}={value!r}: cannot be of type {type(value).__name__}")
    if not isinstance(params["method"], str):
        raise InputError(f"method={params['method']!r}: give the name of a method")
    given_dtype(params["dtype"])
    reading_of(params["reading"])
    parse(params["preprocess"])
    TableOptions.of(params["table"])


def requests_to_json(estimator: Any) -> dict[str, dict[str, Any]] | None:
    """What metadata the estimator asks a pipeline for (`set_fit_request` and its kin); None if nothing was set."""
    if "_metadata_request" not in vars(estimator):
        return None
    routing = estimator.get_metadata_routing()
    return {method: dict(getattr(routing, method).requests) for method in ASKING}


def set_requests(estimator: Any, requests: Mapping[str, Mapping[str, Any]] | None) -> None:
    """The inverse of `requests_to_json`."""
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        for method, names in (requests or {}).items():
            if names:
                getattr(estimator, f"set_{method}_request")(**names)
