"""The calls that come by the thousand: predict, label, predict-then-learn. Parsed and written by hand, once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hedgerow.live import Answer, LiveModel
from hedgerow.service import schemas
from hedgerow.service.bodies import a_flag, a_label, a_list, an_id, check_keys, read_json, the_ids
from hedgerow.service.door import Handler
from hedgerow.service.models import Entry, Models
from hedgerow.service.problems import Problem, invalid
from hedgerow.service.rows import matrix, of_table
from hedgerow.service.schemas import named
from hedgerow.service.tokens import Caller

PREDICT = frozenset({"instances", "ids", "explain"})
LEARN = PREDICT | {"labels"}
LABEL = frozenset({"labels"})
LABELS = frozenset({"id", "label"})
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def answered(value: Any) -> Response:
    """JSON, written once."""
    return Response(_encode(value), media_type="application/json")


def checked(request: Request, models: Models, right: str) -> Entry:
    """The model of a call, if the caller may do this to it."""
    name: str = request.path_params["name"]
    caller: Caller = request.scope["hedgerow.caller"]
    if not caller.may(right, name):
        raise Problem("forbidden", f"this needs the right {right!r} for the model {name[:64]!r}")
    return models[name]


def router(models: Models) -> tuple[APIRouter, dict[str, Handler]]:
    """The three routes, and their handlers by the last part of the path."""
    routes = APIRouter(prefix="/v1/models/{name}", tags=["events"])
    adding = {"predict": _add_predict, "label": _add_label, "predict-then-learn": _add_predict_then_learn}
    return routes, {path: add(routes, models) for path, add in adding.items()}


def _add_predict(routes: APIRouter, models: Models) -> Handler:
    limits = models.settings

    @routes.post("/predict", **named(schemas.PredictRequest, schemas.Predictions))
    async def predict(request: Request) -> Response:
        """Predict one instance or a batch; each is an event, which a label can follow."""
        entry = checked(request, models, "predict")
        entry.model  # noqa: B018  # not ready: say so before the body is read
        body = await read_json(request, limits.body_bytes, limits.body_seconds)
        check_keys(body, PREDICT, ("instances",))
        X, ids, explain = _instances(body, entry, limits.batch_rows)
        if len(X) == 1 and not explain:
            one = await models.call(entry, lambda _, group: group.predict(X[0], None if ids is None else ids[0]))
            return answered({"predictions": [_prediction(one, explain)]})
        if explain:
            answers = await models.call(entry, lambda live, _: live.aio.look(lambda live: _explained(live, X, ids)))
        else:
            answers = await models.call(entry, lambda live, _: live.aio.predict_many(X, ids))
        return answered({"predictions": [_prediction(answer, explain) for answer in answers]})

    return predict


def _add_label(routes: APIRouter, models: Models) -> Handler:
    limits = models.settings

    @routes.post("/label", **named(schemas.LabelRequest, schemas.LabelResults))
    async def label(request: Request) -> Response:
        """Give labels of events, in any order; the same label twice is learned once."""
        entry = checked(request, models, "learn")
        entry.model  # noqa: B018
        body = await read_json(request, limits.body_bytes, limits.body_seconds)
        check_keys(body, LABEL, ("labels",))
        pairs = [_pair(pair, i) for i, pair in enumerate(a_list(body, "labels", limits.batch_rows))]
        if len(pairs) == 1:
            results = [await models.call(entry, lambda _, group: group.label(*pairs[0]))]
        else:
            results = await models.call(entry, lambda live, _: live.aio.label_many(pairs))
        return answered({"results": [{"id": r.id, "status": r.status, "text": r.text} for r in results]})

    return label


def _add_predict_then_learn(routes: APIRouter, models: Models) -> Handler:
    limits = models.settings

    @routes.post("/predict-then-learn", **named(schemas.LabelledInstances, schemas.Predictions))
    async def predict_then_learn(request: Request) -> Response:
        """Predict each instance, then learn its label, in order: the fastest way when the labels are there."""
        entry = checked(request, models, "learn")
        entry.model  # noqa: B018
        body = await read_json(request, limits.body_bytes, limits.body_seconds)
        check_keys(body, LEARN, ("instances", "labels"))
        X, ids, explain = _instances(body, entry, limits.batch_rows)
        given = a_list(body, "labels", limits.batch_rows)
        if len(given) != len(X):
            raise invalid("labels", f"{len(given)} labels for {len(X)} instances; give one for each")
        y = [a_label(value, f"labels[{i}]") for i, value in enumerate(given)]

        def learn(live: LiveModel, _: Any) -> Any:
            return live.aio.predict_then_learn(X, y, ids)

        return answered({"predictions": [_prediction(answer, explain) for answer in await models.call(entry, learn)]})

    return predict_then_learn


def _instances(body: dict[str, Any], entry: Entry, rows: int) -> tuple[Any, list[str] | None, bool]:
    instances = a_list(body, "instances", rows)
    if entry.table is not None:
        X = of_table(instances, entry.table)
    else:
        X = matrix(instances, entry.features, entry.feature_names)
    return X, the_ids(body, len(instances)), a_flag(body, "explain")


def _explained(live: LiveModel, X: Any, ids: list[str] | None) -> list[Answer]:
    """A batch with votes and weights, which the model gives for one row at a time: all by the same state."""

    def work(writer: Any) -> list[Answer]:
        found = []
        for x, answer in zip(X, writer.predict_many(X, ids), strict=True):
            said = None if answer.repeated else live.clf.explain_one(x)
            found.append(answer if said is None else replace(answer, votes=said.votes, weights=said.weights))
        return found

    return live.do_together(work)


def _pair(pair: Any, i: int) -> tuple[str, Any]:
    if type(pair) is not dict:
        raise invalid(f"labels[{i}]", "must be an object with id and label")
    check_keys(pair, LABELS, ("id", "label"), f"labels[{i}].")
    return an_id(pair["id"], f"labels[{i}].id"), a_label(pair["label"], f"labels[{i}].label")


def _prediction(answer: Answer, explain: bool) -> dict[str, Any]:
    found = {"id": answer.id, "label": answer.label, "probability": answer.probability, "repeated": answer.repeated}
    if explain:
        found["probabilities"] = {str(label): p for label, p in answer.probabilities.items()}
        found["votes"], found["weights"] = answer.votes, answer.weights
    return found
