"""What the OpenAPI document says about the bodies and answers of the Open Inference Protocol."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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
