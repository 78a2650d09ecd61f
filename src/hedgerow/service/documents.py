"""The OpenAPI document: exact about the bodies that are read by hand, and about problems."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from hedgerow.service import schemas
from hedgerow.service.names import PATTERN
from hedgerow.service.problems import MEDIA_TYPE
from hedgerow.service.settings import ServiceSettings

NAME = {
    "name": "name", "in": "path", "required": True, "description": "The model.",
    "schema": {"type": "string", "pattern": PATTERN},
}  # fmt: skip
REFERENCE = "#/components/schemas/{model}"
OPEN_TOO = (403, 421, 503)  # from the door, whatever the call
ALWAYS = (401, *OPEN_TOO)
WITH_NAME = (404,)
WITH_MODEL = (408, 413, 415, 422, 429, 504, 400)
OPEN = ("/healthz", "/readyz", "/v2", "/v2/health/live", "/v2/health/ready", "/openapi.json", "/problems/{kind}")
_by_hand: dict[str, type[BaseModel]] = {}


def named(body: type[BaseModel], answer: type[BaseModel]) -> dict[str, Any]:
    """Arguments of a route that reads a JSON body of its own and writes its answer itself."""
    _by_hand[body.__name__] = body
    return {
        "response_model": None,
        "responses": {200: {"model": answer}, **problems(*WITH_NAME, *WITH_MODEL)},
        "openapi_extra": {
            "parameters": [NAME],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": REFERENCE.format(model=body.__name__)}}},
            },
        },
    }


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Responses that are problem documents."""
    return {status: {"model": schemas.Problem} for status in statuses}


def install(app: FastAPI, settings: ServiceSettings) -> None:
    """Let the application describe itself by this module."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, settings)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI, settings: ServiceSettings) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = found["components"]
    _, extra = models_json_schema([(model, "validation") for model in _by_hand.values()], ref_template=REFERENCE)
    components["schemas"].update(extra["$defs"])
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    _limit_batches(components["schemas"], settings.batch_rows)
    for path, operations in found["paths"].items():
        for operation in operations.values():
            _answers(operation["responses"], path in OPEN)
            if settings.token_file is not None and path not in OPEN:
                operation["security"] = [{"token": []}]
    if settings.token_file is not None:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return found


def _limit_batches(schemas_: dict[str, Any], rows: int) -> None:
    for name in ("PredictRequest", "LabelledInstances", "LabelRequest"):
        for key in ("instances", "labels"):
            if key in schemas_[name]["properties"]:
                schemas_[name]["properties"][key]["maxItems"] = rows


def _answers(responses: dict[str, Any], is_open: bool) -> None:
    """Every error is a problem document, and every call has those that the door can give."""
    for always in OPEN_TOO if is_open else ALWAYS:
        responses.setdefault(str(always), {})
    for status in _errors(responses):
        responses[status]["content"] = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(model="Problem")}}}
        responses[status].setdefault("description", "A problem document")
        if status in ("429", "503"):
            responses[status]["headers"] = {
                "Retry-After": {"schema": {"type": "string"}, "description": "Seconds to wait.", "required": True}
            }


def _errors(responses: dict[str, Any]) -> Iterable[str]:
    return [status for status in responses if int(status) >= 400]
