"""The Open Inference Protocol (v2, REST): what clients of KServe and MLServer speak. Labels go to /v1.

Inputs are one tensor of shape [n, features], or one tensor of shape [n] or [n, 1] for each named feature. Outputs are
`label` and `probabilities` or, of a model of numbers, `prediction` and `interval`; and `id`: the id of each event,
`<id of the request>/0` and so on, by which it can be labelled.

Tensors may be bytes behind the JSON of a request, as KServe's client sends arrays unless it is told otherwise: the
header Inference-Header-Content-Length says where the JSON ends; `binary_data_size` of a tensor, how many of the bytes
that follow are its own. Answers are JSON.
"""

from __future__ import annotations

import itertools
from typing import Any
from uuid import uuid4

import numpy as np
from msgspec import UNSET

import hedgerow
from hedgerow.core.arrays import Array
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import Answer, NumberAnswer
from hedgerow.service import schemas
from hedgerow.service.models import Entry
from hedgerow.service.operations import JSON, Call, Later, operation
from hedgerow.service.schemas import DTYPES, InputTensor, OutputTensor, Problem, TensorMetadata, decode, invalid

MODEL = "/v2/models/{name}"
HEADER = "inference-header-content-length"
SIZE = "binary_data_size"


CLASSES, NUMBERS = ("label", "probabilities", "id"), ("prediction", "interval", "id")  # outputs


@operation("POST", f"{MODEL}/infer", "predict", body=schemas.InferRequest)
async def infer(call: Call) -> schemas.InferAnswer | Later[schemas.InferAnswer]:
    """Predict; each row is an event that can be labelled by its id."""
    known = CLASSES if isinstance(call.live.clf, OnlineTransferClassifier) else NUMBERS
    body = await _body(call)
    outputs = [output.name for output in body.outputs or ()] or known
    for i, name in enumerate(outputs):
        if name not in known:
            raise invalid(f"outputs[{i}].name", f"this model has {', '.join(known)}")
    X = _rows(body.inputs, call.entry, call.models.settings.max_rows)
    stem = body.id or uuid4().hex
    schemas.check_printable([stem], "id")
    ids = [f"{stem}/{i}" for i in range(len(X))]
    answers = await call.ask(call.live.aio.predict_many, X, ids)
    return lambda: schemas.InferAnswer(call.name, stem, [_output(name, answers) for name in outputs])


@operation("GET", "/v2")
async def server_metadata(call: Call) -> schemas.ServerMetadata:
    """What answers here."""
    return schemas.ServerMetadata("hedgerow", hedgerow.__version__, [])


@operation("GET", "/v2/health/live", under="live")
async def server_live(call: Call) -> bool:
    """Whether the process answers at all."""
    return True


@operation("GET", "/v2/health/ready", under="ready")
async def server_ready(call: Call) -> bool:
    """Whether requests can be served."""
    call.models.check_ready()
    return True


@operation("GET", MODEL, "predict", "read")
async def model_metadata(call: Call) -> schemas.ModelMetadata:
    """Inputs and outputs of a model."""
    entry, clf = call.entry, call.live.clf
    inputs = [TensorMetadata(name, "FP64", [-1]) for name in entry.feature_names or ()]
    inputs = inputs or [TensorMetadata("instances", "FP64", [-1, entry.features])]
    if isinstance(clf, OnlineTransferClassifier):
        classes = clf.classes_.tolist()
        outputs = [TensorMetadata("label", _label_type(classes), [-1])]
        outputs.append(TensorMetadata("probabilities", "FP64", [-1, len(classes)]))
    else:
        outputs = [TensorMetadata("prediction", "FP64", [-1]), TensorMetadata("interval", "FP64", [-1, 2])]
    outputs.append(TensorMetadata("id", "BYTES", [-1]))
    return schemas.ModelMetadata(entry.name, [], "hedgerow", inputs, outputs)


@operation("GET", f"{MODEL}/ready", "predict", "read")
async def model_ready(call: Call) -> schemas.ModelReady:
    """Whether a model can be asked."""
    call.entry.check_ready()
    return schemas.ModelReady(call.name, True)


async def _body(call: Call) -> schemas.InferRequest:
    """JSON, perhaps with bytes after it, which become the data of their tensors."""
    length = call.headers.get(HEADER)
    if length is None:
        call.check_type(JSON)
    content = await call.content()
    end = len(content) if length is None else int(length[:18]) if length.isascii() and length.isdigit() else -1
    if not 0 <= end <= len(content):
        raise Problem("malformed", "Inference-Header-Content-Length is not the length of JSON at the start of the body")
    body, rest = decode(content[:end], schemas.InferRequest), memoryview(content)[end:]
    for i, tensor in enumerate(body.inputs):
        size, field = (tensor.parameters or {}).get(SIZE), f"inputs[{i}]"
        if size is None:
            continue
        if length is None:
            raise Problem("malformed", f"{field} has {SIZE}, but there is no header {HEADER}")
        if type(size) is not int or not 0 <= size <= len(rest):
            raise invalid(f"{field}.parameters.{SIZE}", f"is not one of the {len(rest)} bytes that are left")
        if tensor.data is not UNSET:
            raise invalid(f"{field}.data", "stands there as JSON and as bytes; send one of them")
        dtype = np.dtype(DTYPES[tensor.datatype])
        if size % dtype.itemsize:
            raise invalid(f"{field}.parameters.{SIZE}", f"{size} bytes are no whole number of {tensor.datatype}")
        tensor.data, rest = np.frombuffer(rest[:size], dtype), rest[size:]  # type: ignore[assignment]
    if rest:
        raise Problem("malformed", f"{len(rest)} bytes after the JSON belong to no tensor")
    return body


def _rows(inputs: list[InputTensor], entry: Entry, most: int) -> Array:
    """One tensor of rows, or a tensor for each named feature."""
    tensors = [_tensor(tensor, f"inputs[{i}]", most) for i, tensor in enumerate(inputs)]
    names, known = [tensor.name for tensor in inputs], entry.feature_names
    if len(tensors) == 1 and (len(inputs[0].shape) == 2 or known is None):
        return entry.rows(tensors[0], "inputs[0].data")
    if known is None:
        raise invalid("inputs", f"the model has no names of features; send one tensor of shape [n, {entry.features}]")
    for name in known:
        if names.count(name) != 1:
            raise invalid("inputs", f"{names.count(name)} tensors are named {name!r}; send one for each feature")
    if len({len(tensor) for tensor in tensors}) > 1:
        raise invalid("inputs", "the tensors have different numbers of rows")
    for i, tensor in enumerate(tensors):
        if tensor.shape[1] != 1:
            raise invalid(f"inputs[{i}].shape", f"a tensor of one feature ({names[i]!r}) has shape [n] or [n, 1]")
    return entry.rows(np.hstack([tensors[names.index(name)] for name in known]), "row")


def _tensor(tensor: InputTensor, field: str, most: int) -> Array:
    """The rows of a tensor, one value each where it has one dimension."""
    shape = tensor.shape
    if tensor.data is UNSET:
        raise invalid(f"{field}.data", "missing")
    if any(not 0 < n < 2**31 for n in shape):
        raise invalid(f"{field}.shape", "must be [n] or [n, features], whole numbers above 0")
    n, width = shape[0], shape[1] if len(shape) == 2 else 1
    if n > most:
        raise Problem("too-large", f"{field}.shape: {n} rows; at most {most} in one request")
    try:
        values = np.array(tensor.data, dtype=np.float64)
    except ValueError:  # lists of different lengths
        values = np.empty(0)
    if values.shape not in ((n * width,), (n, width)):
        raise invalid(f"{field}.data", f"has not the {' x '.join(map(str, shape))} values that the shape says")
    return values.reshape(n, width)


def _label_type(labels: list[Any]) -> str:
    kinds = {type(label) for label in labels}
    if kinds <= {int}:
        return "INT64"
    if kinds <= {bool}:
        return "BOOL"
    return "FP64" if kinds <= {int, float} else "BYTES"


def _output(name: str, answers: list[Answer]) -> OutputTensor:
    if name == "id":
        return OutputTensor(name, "BYTES", [len(answers)], [answer.id for answer in answers])
    if name in ("prediction", "label"):
        kind = _label_type(list(answers[0].probabilities) or [0.0])
        labels = [str(answer.label) if kind == "BYTES" else answer.label for answer in answers]
        return OutputTensor(name, kind, [len(answers)], labels)
    rows = [a.interval if isinstance(a, NumberAnswer) else a.probabilities.values() for a in answers]
    return OutputTensor(name, "FP64", [len(rows), len(rows[0])], list(itertools.chain(*rows)))
