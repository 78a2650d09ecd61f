"""The Open Inference Protocol (v2, REST): what clients of KServe and MLServer speak. Labels go to /v1.

Inputs are one tensor of shape [n, features], or one tensor of shape [n] or [n, 1] for each named feature. Outputs are
`label`, `probabilities` and `id`: the id of each event, `<id of the request>/0` and so on, by which it can be labelled.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

import hedgerow
from hedgerow.core.arrays import Array
from hedgerow.live import Answer
from hedgerow.service.api import Name
from hedgerow.service.bodies import Body, an_id, kind_of, parsed, read_bytes, read_json
from hedgerow.service.models import Entry, Models
from hedgerow.service.problems import Problem, invalid
from hedgerow.service.rows import matrix
from hedgerow.service.schemas import as_json, named, problems
from hedgerow.service.settings import ServiceSettings
from hedgerow.service.tokens import Caller

OUTPUTS = ("label", "probabilities", "id")


def router(models: Models) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v2", tags=["Open Inference Protocol"])
    _add_server(routes, models)
    _add_models(routes, models)
    return routes


def _add_server(routes: APIRouter, models: Models) -> None:
    """What answers here, and whether it does."""

    @routes.get("", response_model=Server)
    async def server() -> Response:
        """What answers here."""
        return as_json({"name": "hedgerow", "version": hedgerow.__version__, "extensions": []})

    @routes.get("/health/live", response_model=Alive)
    async def alive() -> Response:
        """Whether the process answers at all."""
        return as_json({"live": True})

    @routes.get("/health/ready", response_model=Ready, response_model_exclude_none=True)
    async def ready() -> Response:
        """Whether every model is open and warm, or known to be unusable."""
        if not models.opened:
            raise Problem("not-ready", "models are being opened")
        return as_json({"ready": True})


def _add_models(routes: APIRouter, models: Models) -> None:
    """What a model takes and gives, and its predictions."""
    limits = models.settings

    @routes.get("/models/{name}", response_model=Metadata, responses=problems(404, 422))
    async def metadata(name: Name, request: Request) -> Response:
        """Inputs and outputs of a model."""
        return as_json(_metadata(_checked(request, models)))

    @routes.get("/models/{name}/ready", response_model=Ready, responses=problems(404, 422))
    async def model_ready(name: Name, request: Request) -> Response:
        """Whether a model can be asked."""
        entry = _checked(request, models)
        entry.model  # noqa: B018  # a problem if not
        return as_json({"name": entry.name, "ready": True})

    @routes.post("/models/{name}/infer", **named(InferRequest, InferAnswer))
    async def infer(request: Request) -> Response:
        """Predict; each row is an event that can be labelled by its id."""
        entry = _checked(request, models)
        entry.model  # noqa: B018
        body = await _body(request, limits)
        wanted = _wanted(body)
        X = _rows(body, entry, limits.batch_rows)
        given = body.get("id")
        stem = uuid4().hex if given is None else an_id(given, "id")[:180]
        ids = [f"{stem}/{i}" for i in range(len(X))]
        answers = await models.call(entry, lambda live, _: live.aio.predict_many(X, ids))
        outputs = [_output(name, answers) for name in wanted]
        return as_json({"model_name": entry.name, "id": stem, "outputs": outputs})


async def _body(request: Request, limits: ServiceSettings) -> Body:
    """JSON, perhaps with bytes after it."""
    length = request.headers.get(HEADER)
    if length is None:
        return await read_json(request, limits.body_bytes, limits.body_seconds)
    text, rest = parted(await read_bytes(request, limits.body_bytes, limits.body_seconds), length)
    body = parsed(text)
    filled(body, rest)
    return body


def _checked(request: Request, models: Models) -> Entry:
    """A client of this protocol asks what a model is before it predicts: `predict` is enough for all calls here."""
    name, caller = request.path_params["name"], request.scope["hedgerow.caller"]
    assert isinstance(caller, Caller)
    asks = request.method == "GET"
    if not caller.may("predict", name) and not (asks and caller.may("read", name)):
        raise Problem("forbidden", f"this needs the right 'predict' for the model {name[:64]!r}")
    return models[name]


def _metadata(entry: Entry) -> dict[str, Any]:
    classes = entry.model.clf.classes_.tolist()
    outputs = [
        {"name": "label", "datatype": _label_type(classes), "shape": [-1]},
        {"name": "probabilities", "datatype": "FP64", "shape": [-1, len(classes)]},
        {"name": "id", "datatype": "BYTES", "shape": [-1]},
    ]
    inputs = [{"name": "instances", "datatype": "FP64", "shape": [-1, entry.features]}]
    if entry.feature_names:
        inputs = [{"name": name, "datatype": "FP64", "shape": [-1]} for name in entry.feature_names]
    return {
        "name": entry.name, "versions": [], "platform": "hedgerow", "inputs": inputs, "outputs": outputs,
    }  # fmt: skip


def _wanted(body: Body) -> list[str]:
    given = body.get("outputs")
    if given is None:
        return list(OUTPUTS)
    if type(given) is not list:
        raise invalid("outputs", f"must be a list, not {kind_of(given)}")
    names = [output.get("name") if isinstance(output, dict) else None for output in given]
    for i, name in enumerate(names):
        if name not in OUTPUTS:
            raise invalid(f"outputs[{i}].name", f"unknown output; there are {', '.join(OUTPUTS)}")
    return [str(name) for name in names] or list(OUTPUTS)


def _rows(body: Body, entry: Entry, most: int) -> Array:
    """One tensor of rows, or a tensor for each named feature."""
    inputs = body.get("inputs")
    if type(inputs) is not list or not inputs or not all(isinstance(tensor, dict) for tensor in inputs):
        raise invalid("inputs", "must be a list of at least one tensor")
    tensors = [_tensor(tensor, f"inputs[{i}]", most) for i, tensor in enumerate(inputs)]
    if len(tensors) == 1 and (len(inputs[0]["shape"]) == 2 or entry.feature_names is None):
        return matrix(tensors[0], entry.features, entry.feature_names, "inputs[0].data")
    names = [tensor.get("name") for tensor in inputs]
    known = entry.feature_names
    if known is None:
        raise invalid("inputs", f"the model has no names of features; send one tensor of shape [n, {entry.features}]")
    for name in known:
        if names.count(name) != 1:
            raise invalid("inputs", f"{names.count(name)} tensors are named {name!r}; send one for each feature")
    if len({len(tensor) for tensor in tensors}) > 1:
        raise invalid("inputs", "the tensors have different numbers of rows")
    for i, (tensor, name) in enumerate(zip(tensors, names, strict=True)):
        if any(len(row) != 1 for row in tensor):
            raise invalid(f"inputs[{i}].shape", f"a tensor of one feature ({name!r}) has shape [n] or [n, 1]")
    order = [names.index(name) for name in known]
    rows = [[tensors[j][i][0] for j in order] for i in range(len(tensors[0]))]
    return matrix(rows, entry.features, None, "row")


def _tensor(tensor: dict[str, Any], field: str, most: int) -> list[list[Any]]:
    """The rows of a tensor, one value each where it has one dimension."""
    parameters = tensor.get("parameters") or {}
    if type(parameters) is not dict:
        raise invalid(f"{field}.parameters", f"must be an object, not {kind_of(parameters)}")
    if SIZE in parameters:
        raise Problem("malformed", f"{field} has {SIZE}, but there is no header Inference-Header-Content-Length")
    for key, kind in (("name", str), ("shape", list), ("datatype", str), ("data", list)):
        if type(tensor.get(key)) is not kind:
            raise invalid(f"{field}.{key}", f"missing, or not {kind_of(kind())}")
    if tensor["datatype"] not in DTYPES:
        raise invalid(f"{field}.datatype", f"features are numbers: {', '.join(DTYPES)}")
    shape, data = tensor["shape"], tensor["data"]
    if len(shape) not in (1, 2) or any(type(n) is not int or not 0 < n < 2**31 for n in shape):
        raise invalid(f"{field}.shape", "must be [n] or [n, features], whole numbers above 0")
    n, width = shape[0], shape[1] if len(shape) == 2 else 1
    if n > most:
        raise Problem("too-large", f"{field}.shape: {n} rows; at most {most} in one request")
    nested = all(isinstance(row, list) for row in data)
    rows: list[list[Any]] = data if nested else [data[i : i + width] for i in range(0, len(data), width)]
    if len(rows) != n or any(len(row) != width for row in rows):
        raise invalid(f"{field}.data", f"has not the {' x '.join(map(str, shape))} values that the shape says")
    return rows


def _label_type(labels: list[Any]) -> str:
    kinds = {type(label) for label in labels}
    if kinds <= {int}:
        return "INT64"
    if kinds <= {bool}:
        return "BOOL"
    return "FP64" if kinds <= {int, float} else "BYTES"


def _output(name: str, answers: list[Answer]) -> dict[str, Any]:
    n = len(answers)
    if name == "id":
        return {"name": name, "datatype": "BYTES", "shape": [n], "data": [answer.id for answer in answers]}
    if name == "probabilities":
        values = np.array([list(answer.probabilities.values()) for answer in answers])
        return {"name": name, "datatype": "FP64", "shape": list(values.shape), "data": values.ravel().tolist()}
    labels = [answer.label for answer in answers]
    kind = _label_type(list(answers[0].probabilities))
    data = [str(label) for label in labels] if kind == "BYTES" else labels
    return {"name": name, "datatype": kind, "shape": [n], "data": data}


# -- tensors --------------------------------------------------------------------------------------------------

# What the OpenAPI document says about the bodies and answers of the Open Inference Protocol.


class Tensor(BaseModel):
    """Numbers with their shape; `data` nested or flat, row after row."""

    name: str = Field(min_length=1)
    shape: list[int] = Field(min_length=1, max_length=2)
    datatype: str = Field(examples=["FP64"])
    parameters: dict[str, Any] | None = None
    data: list[Any]


class InferRequest(BaseModel):
    """Instances as tensors."""

    class Wanted(BaseModel):
        """An output that is asked for."""

        name: str
        parameters: dict[str, Any] | None = None

    id: str | None = Field(default=None, min_length=1, max_length=180)
    parameters: dict[str, Any] | None = None
    inputs: list[Tensor] = Field(min_length=1)
    outputs: list[Wanted] | None = None


class InferAnswer(BaseModel):
    """Predictions as tensors."""

    model_config = ConfigDict(protected_namespaces=())
    model_name: str
    id: str
    outputs: list[Tensor]


class Server(BaseModel):
    """What answers here."""

    name: str
    version: str
    extensions: list[str]


class Alive(BaseModel):
    """Whether the service lives."""

    live: bool


class Ready(BaseModel):
    """Whether it can be asked."""

    name: str | None = None
    ready: bool


class Metadata(BaseModel):
    """What goes in and what comes out."""

    class About(BaseModel):
        """A tensor without its data."""

        name: str
        datatype: str
        shape: list[int]

    name: str
    versions: list[str]
    platform: str
    inputs: list[About]
    outputs: list[About]


# -- binary ---------------------------------------------------------------------------------------------------

# Tensors as bytes behind the JSON of a request: how KServe's client sends arrays unless it is told otherwise.
#
# The header Inference-Header-Content-Length says where the JSON ends; `binary_data_size` of a tensor, how many of the
# bytes that follow are its own. They become `data` like any other, and are checked like any other. Answers are JSON.


HEADER = "inference-header-content-length"
SIZE = "binary_data_size"
DTYPES = {
    "FP64": "<f8", "FP32": "<f4", "FP16": "<f2", "INT64": "<i8", "INT32": "<i4", "INT16": "<i2", "INT8": "<i1",
    "UINT64": "<u8", "UINT32": "<u4", "UINT16": "<u2", "UINT8": "<u1",
}  # fmt: skip


def parted(data: bytes, length: str) -> tuple[bytes, bytes]:
    """The JSON of a body, and the bytes after it."""
    if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > len(data):
        raise Problem("malformed", "Inference-Header-Content-Length is not the length of JSON at the start of the body")
    return data[: int(length)], data[int(length) :]


def filled(body: Body, rest: bytes) -> None:
    """Give every tensor that has bytes its data; all bytes must be somebody's."""
    inputs, at = body.get("inputs"), 0
    for i, tensor in enumerate(inputs if type(inputs) is list else []):
        parameters = tensor.get("parameters") if isinstance(tensor, dict) else None
        if not isinstance(parameters, dict) or SIZE not in parameters:
            continue
        size = parameters.pop(SIZE)
        if type(size) is not int or not 0 <= size <= len(rest) - at:
            raise invalid(f"inputs[{i}].parameters.{SIZE}", f"is not one of the {len(rest) - at} bytes that are left")
        tensor["data"] = _numbers(tensor, rest[at : at + size], f"inputs[{i}]")
        at += size
    if at != len(rest):
        raise Problem("malformed", f"{len(rest) - at} bytes after the JSON belong to no tensor")


def _numbers(tensor: dict[str, Any], data: bytes, field: str) -> list[Any]:
    kind = tensor.get("datatype")
    if not isinstance(kind, str) or kind not in DTYPES:
        raise invalid(f"{field}.datatype", f"features are numbers: {', '.join(DTYPES)}")
    if "data" in tensor:
        raise invalid(f"{field}.data", "stands there as JSON and as bytes; send one of them")
    dtype = np.dtype(DTYPES[kind])
    if len(data) % dtype.itemsize:
        raise invalid(f"{field}.parameters.{SIZE}", f"{len(data)} bytes are no whole number of {kind}")
    found: list[Any] = np.frombuffer(data, dtype).tolist()
    return found
