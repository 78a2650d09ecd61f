"""Tensors as bytes behind the JSON of a request: how KServe's client sends arrays unless it is told otherwise.

The header Inference-Header-Content-Length says where the JSON ends; `binary_data_size` of a tensor, how many of the
bytes that follow are its own. They become `data` like any other, and are checked like any other. Answers are JSON.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.service.bodies import Body
from hedgerow.service.problems import Problem, invalid

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
