"""What the OpenAPI document says about bodies and answers; on the hot path they are checked and written by hand."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from hedgerow.service.bodies import LONGEST_ID, LONGEST_LABEL

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
