"""Fleets over HTTP: a model a key, with the rights, limits and readiness of live models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from starlette.responses import Response

from hedgerow.client import KeyPrediction
from hedgerow.core.values import plain
from hedgerow.fleet import Fleet
from hedgerow.fleet.holder import Predictions
from hedgerow.service import schemas
from hedgerow.service.jobs import receive_model
from hedgerow.service.models import Entry
from hedgerow.service.operations import BINARY, Call, operation, query_of, respond_from
from hedgerow.service.routes import BYTES, FEW_NAMES, bounded, check_count, rows_of
from hedgerow.service.schemas import KeyPredictions, Problem, invalid

T = TypeVar("T")
FLEET = "/v1/fleets/{name}"
REMEMBERED = 512  # batches whose ids are known: more than may wait, and be sent again


async def _do(call: Call, work: Callable[[Fleet], T]) -> T:
    """Work in the one thread of the fleet, in the order of the requests."""
    entry = call.entry
    entry.check_ready()
    fleet, pool = entry.fleet, entry.pool
    assert fleet is not None
    return await call.models.call(entry, lambda: asyncio.get_running_loop().run_in_executor(pool, work, fleet))


@operation("POST", f"{FLEET}/predict", "predict", body=schemas.FleetPredict, answer=KeyPredictions)
async def fleet_predict(call: Call) -> Response:
    """Predict instances, each by what its key has learned; a key that is new predicts as the sources do."""
    call.entry.check_ready()
    body = await call.json(schemas.FleetPredict)
    X = _rows(call, body)
    predicted = await _do(call, lambda fleet: fleet.probabilities(body.keys, X))
    return await respond_from(lambda: KeyPredictions(_predictions(body, predicted)))


@operation("POST", f"{FLEET}/learn", "learn", body=schemas.FleetLearn, answer=KeyPredictions)
async def fleet_learn(call: Call) -> Response:
    """Learn labelled instances, each for its key, in order; what was predicted before is answered."""
    call.entry.check_ready()
    body = await call.json(schemas.FleetLearn)
    X = _rows(call, body)
    if len(body.labels) != len(X):
        raise invalid("labels", f"{len(body.labels)} labels for {len(X)} instances; give one for each")

    def learn(fleet: Fleet) -> list[KeyPrediction] | None:
        mark = fleet.mark if isinstance(fleet.mark, dict) else {}
        learned = mark.get("batches", [])
        if body.id in learned:
            return None
        if body.id is not None:  # on disk with the rows, or not at all
            mark = {**mark, "batches": [*learned[1 - REMEMBERED :], body.id]}
        labels = fleet.predict_then_learn(body.keys, X, body.labels, mark=mark or None)
        return [KeyPrediction(key, plain(label)) for key, label in zip(body.keys, labels, strict=True)]

    predictions = await _do(call, learn)
    return await respond_from(lambda: KeyPredictions(predictions or [], duplicate=predictions is None))


@operation("GET", f"{FLEET}/stats", "read", answer=dict[str, Any])
async def fleet_stats(call: Call) -> Response:
    """Keys and bytes, in memory and on disk."""
    entry = call.entry
    entry.check_ready()
    assert entry.fleet is not None
    return await respond_from(entry.fleet.stats)


@operation("DELETE", f"{FLEET}/keys/{{key}}", "admin", query=schemas.KeyQuery, status=204, errors=(429, 504))
async def forget_key(call: Call) -> Response:
    """Forget all that a key has learned: text or, with ?whole=true, a whole number."""
    key: str | int = call.path_params["key"]
    if query_of(call, schemas.KeyQuery).whole:
        key = schemas.convert({"key": str(key)}, schemas.WholeKey).key
    await _do(call, lambda fleet: fleet.forget(key))
    return Response(status_code=204)


@operation("GET", "/v1/fleets", "read", answer=schemas.FleetList)
async def list_fleets(call: Call) -> Response:
    """The fleets that the caller may read."""
    entries = [entry for entry in call.models if entry.kind == "fleet" and call.caller.may("read", entry.name)]
    return await respond_from(lambda: schemas.FleetList([_about(entry, FEW_NAMES) for entry in entries]))


@operation("GET", FLEET, "read", answer=schemas.Fleet)
async def get_fleet(call: Call) -> Response:
    """What a fleet is, and how it is."""
    entry = call.entry
    return await respond_from(lambda: _about(entry))


@operation("PUT", FLEET, "admin", answer=schemas.Fleet, status=201, sends={BINARY: BYTES}, errors=(409,))
async def create_fleet(call: Call) -> Response:
    """A model file that has learned no label of a target becomes the start of every key of a new fleet."""
    entry = call.models.reserve(call.name, "fleet")
    await receive_model(call, entry)
    return await respond_from(lambda: _about(entry), 201, {"Location": call.address(f"/v1/fleets/{call.name}")})


@operation("DELETE", FLEET, "admin", status=204)
async def delete_fleet(call: Call) -> Response:
    """Close a fleet and remove all that its keys have learned."""
    await call.models.delete(call.entry.name)
    return Response(status_code=204)


def _about(entry: Entry, *most: int) -> schemas.Fleet:
    if entry.state != "ready" or entry.fleet is None:
        return schemas.Fleet(entry.name, False, entry.error or f"the fleet is {entry.state}")
    classes = [plain(label) for label in entry.fleet.classes_]
    about = {"features": entry.features, "feature_names": entry.feature_names, "classes": classes}
    return schemas.Fleet(entry.name, True, method=entry.fleet.base.clf.method, **bounded(about, *most))


def _rows(call: Call, body: schemas.FleetRequest) -> Any:
    entry = call.entry
    check_count(call, "instances", body.instances)
    if len(body.keys) != len(body.instances):
        raise invalid("keys", f"{len(body.keys)} keys for {len(body.instances)} instances; give one for each")
    assert entry.fleet is not None
    if isinstance(body, schemas.FleetPredict) and body.explain:
        size = sum(len(str(label)) + 30 for label in entry.fleet.classes_.tolist())
        if len(body.instances) * size > call.models.settings.max_answer:
            raise Problem("too-large", "explain: so many rows and classes are more than an answer may have")
    return rows_of(entry, body.instances)


def _predictions(body: schemas.FleetPredict, predicted: list[Predictions]) -> list[KeyPrediction]:
    rows: dict[int, KeyPrediction] = {}
    for some in predicted:
        labels = [plain(label) for label in some.classes]
        for i, shares, code in zip(some.places, some.P.tolist(), np.argmax(some.P, axis=1).tolist(), strict=True):
            all_of = dict(zip(map(str, labels), shares, strict=True)) if body.explain else None
            rows[i] = KeyPrediction(body.keys[i], labels[code], shares[code], all_of)
    return [rows[i] for i in range(len(body.keys))]
