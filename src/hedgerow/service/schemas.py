"""What the OpenAPI document says about bodies and answers; on the hot path they are checked and written by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from hedgerow.service.bodies import LONGEST_ID, LONGEST_LABEL
from hedgerow.service.problems import MEDIA_TYPE
from hedgerow.service.settings import PATTERN, ServiceSettings

Number = StrictInt | StrictFloat
Id = Annotated[
    StrictStr,
    Field(min_length=1, max_length=LONGEST_ID, description="Printable characters.", examples=["reading-17"]),
]
NewId = Annotated[Id, Field(pattern="^[^#]", description="Printable characters, the first of them not '#'.")]
Whole = Annotated[StrictInt, Field(gt=-(2**63), lt=2**63)]
Label = Annotated[StrictStr, Field(max_length=LONGEST_LABEL)] | Whole | StrictFloat | StrictBool
Instance = Annotated[
    list[Number] | dict[str, Any],
    Field(description="Numbers: a list in the model's order, or an object by name, which may have more."),
]


class Exact(BaseModel):
    """A body without any other field."""

    model_config = ConfigDict(extra="forbid")


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str = Field(examples=["instances[3].width"])
    detail: str


class Problem(BaseModel):
    """RFC 9457: what is wrong, and in which field."""

    type: str = Field(examples=["/problems/invalid"])
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldError] | None = None


class PredictRequest(Exact):
    """Instances to predict. The same id again, with the same features, gives the stored answer."""

    instances: list[Instance] = Field(min_length=1)
    ids: list[NewId] | None = Field(default=None, description="One for each instance; made if there are none.")
    explain: StrictBool = Field(default=False, description="Also probabilities, votes and weights.")


class LabelledInstances(PredictRequest):
    """Instances, each predicted before its label is learned."""

    labels: list[Label] = Field(min_length=1, description="One for each instance.")


class Prediction(BaseModel):
    """The answer for one instance."""

    id: str
    label: Label
    probability: float
    probabilities: dict[str, float] | None = Field(default=None, description="By label; only with `explain`.")
    votes: dict[str, Label] | None = Field(default=None, description="What each expert says; only with `explain`.")
    weights: dict[str, float] | None = Field(default=None, description="How much each expert counts; with `explain`.")
    repeated: bool = Field(description="Whether the id was known, so that this is the answer given before.")


class Predictions(BaseModel):
    """In the order of the instances."""

    predictions: list[Prediction]


class EventLabel(Exact):
    """The label of one event."""

    id: Id
    label: Label


class LabelRequest(Exact):
    """Labels of events that were predicted."""

    labels: list[EventLabel] = Field(min_length=1)


class LabelResult(BaseModel):
    """What became of one label."""

    id: str
    status: Literal["learned", "already", "unknown", "conflict", "given up", "refused"]
    text: str


class LabelResults(BaseModel):
    """In the order of the labels."""

    results: list[LabelResult]


class ModelSummary(BaseModel):
    """One line of the list of models; without numbers while the model is not ready."""

    name: str
    ready: bool
    error: str | None = None
    method: str | None = None
    features: int | None = None
    classes: list[Any] | None = None
    events: int | None = None
    labels: int | None = None
    mistakes: int | None = None


class ModelList(BaseModel):
    """The models that the token may read."""

    models: list[ModelSummary]


class Model(ModelSummary):
    """What a model is."""

    reading: str | None = None
    feature_names: list[str] | None = None
    sources: list[str] | None = None
    experts: list[str] | None = None


class Job(BaseModel):
    """A fit in the background."""

    id: str
    model: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    progress: float = Field(ge=0, le=1)
    text: str = Field(description="What it does now, or did last.")
    error: str | None = None
    created: float
    ended: float | None = None


class JobList(BaseModel):
    """Newest first."""

    jobs: list[Job]


class Health(BaseModel):
    """Alive."""

    status: Literal["alive"]


class Readiness(BaseModel):
    """How many models are ready, still opening, and unusable."""

    ready: bool
    models: dict[str, int]


class ProblemKind(BaseModel):
    """What a type of problem means."""

    type: str
    title: str
    status: int
    meaning: str


class History(BaseModel):
    """Points over time, oldest first."""

    points: list[dict[str, Any]]


class Latest(BaseModel):
    """The newest events, newest first."""

    events: list[dict[str, Any]]


class Alarms(BaseModel):
    """Rules that are broken now."""

    alarms: list[dict[str, Any]]


# -- documents ------------------------------------------------------------------------------------------------

# The OpenAPI document: exact about the bodies that are read by hand, and about problems.


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
    return {status: {"model": Problem} for status in statuses}


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


# -- json text ------------------------------------------------------------------------------------------------

# Answers as JSON that every reader takes: no NaN, no infinity, no NumPy.


def finite(value: Any) -> Any:
    """A value that JSON can say; a number that is not finite is null.

    >>> finite({"a": [1.0, float("nan")], 2: np.float64(0.5)})
    {'a': [1.0, None], '2': 0.5}
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return finite(value.tolist())
    return value


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return Response(text, status, headers, media_type="application/json")
