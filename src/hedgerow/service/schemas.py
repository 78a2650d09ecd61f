"""The types of the API, each declared once: bodies are validated by them, answers encoded, OpenAPI generated.

A request that cannot be used is a `Problem`: an RFC 9457 document that names the field, what is wrong and what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from hedgerow.client import Prediction
from hedgerow.events import LONGEST_ID
from hedgerow.live.journal import LAST
from hedgerow.service.check import LONGEST_LABEL

T = TypeVar("T")

# -- problems ---------------------------------------------------------------------------------------------------

PROBLEM_TYPE = "application/problem+json"
SHOWN = 20  # errors of one request that are listed


class Kind(NamedTuple):
    """A kind of problem; its name is the last part of its type. `wait`: seconds of Retry-After."""

    status: int
    title: str
    meaning: str
    wait: int | None = None


KINDS = {
    "malformed": Kind(400, "The body cannot be read", "It is not JSON, or not what its content type says."),
    "unauthorised": Kind(401, "A token is needed", "Send `Authorization: Bearer TOKEN` with a token of the service."),
    "forbidden": Kind(403, "The token does not allow this", "It lacks the right that the call needs for this model."),
    "cross-origin": Kind(403, "Calls from other sites are refused", "A browser sent this on behalf of another site."),
    "not-found": Kind(404, "There is nothing at this address", "See /openapi.json for the list of addresses."),
    "no-model": Kind(404, "There is no such model", "GET /v1/models lists the models."),
    "method-not-allowed": Kind(405, "The method cannot be used here", "The header Allow lists the methods that can."),
    "slow": Kind(408, "The body did not arrive in time", "Nothing was done with the part that arrived."),
    "taken": Kind(409, "The name is taken", "Delete the model of this name first, or choose another name."),
    "replaced": Kind(412, "The model has changed", "If-Match does not match its tag; fetch the model and try again."),
    "too-large": Kind(413, "The request is too large", "Send less at once, or let the operator raise the limit."),
    "media-type": Kind(415, "The content type cannot be read", "The header Content-Type must say what is sent."),
    "misdirected": Kind(421, "This host is not served", "The header Host must name the address that is served."),
    "invalid": Kind(422, "The request cannot be used", "`errors` names the fields; nothing was changed."),
    "busy": Kind(429, "Too many requests are waiting", "Nothing was done; try again after Retry-After seconds.", 1),
    "internal": Kind(500, "Something went wrong inside", "The log has details under the id in `instance`."),
    "not-installed": Kind(501, "The service lacks a package", "`detail` names what its operator has to install."),
    "not-ready": Kind(503, "Not ready", "The service starts or stops, or the model is not open; try again later.", 2),
    "unusable": Kind(503, "The model cannot be used", "It could not be opened; `detail` says why.", 30),
    "storage": Kind(503, "The disk cannot be written", "Nothing was acknowledged; the last good state is kept.", 10),
    "timed-out": Kind(
        504, "The model did not answer in time",
        "The events may have been committed. The same request with the same ids is safe: it finds their answers, and "
        "no label is learned twice.",
    ),
}  # fmt: skip


class FieldError(Struct):
    """What is wrong with one field of a request."""

    field: Annotated[str, Meta(examples=["instances[3].width"])]
    detail: str


class ProblemDocument(Struct, omit_defaults=True):
    """RFC 9457: what is wrong, and in which field."""

    type: Annotated[str, Meta(examples=["/problems/invalid"])]
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldError] | None = None


class Problem(Exception):
    """A request that is answered with a problem document."""

    def __init__(
        self,
        kind: str,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        wait = KINDS[kind].wait
        self.kind = kind
        self.detail = detail
        self.errors = list(errors)
        self.headers = {**({} if wait is None else {"Retry-After": str(wait)}), **(headers or {})}

    def response(self, instance: str) -> Response:
        """The problem as an answer; `instance` is the path of the call and the id under which the log has it."""
        kind = KINDS[self.kind]
        document = ProblemDocument(
            f"/problems/{self.kind}",
            kind.title,
            kind.status,
            self.detail,
            instance,
            self.errors[:SHOWN] or None,
        )
        return Response(encode(document), kind.status, self.headers, PROBLEM_TYPE)


def invalid(field: str, detail: str) -> Problem:
    """One field that cannot be used."""
    return Problem("invalid", f"{field}: {detail}", [FieldError(field, detail)])


# -- bodies and answers -----------------------------------------------------------------------------------------

Id = Annotated[
    str,
    Meta(
        min_length=1, max_length=LONGEST_ID, description="Printable characters.", examples=["a-17"]
    ),
]
NewId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_ID,
        pattern="^[^#]",
        description="Printable, the first of them not '#'.",
    ),
]
Whole = Annotated[int, Meta(gt=-(2**63), le=2**63 - 1)]
Label = Annotated[str, Meta(max_length=LONGEST_LABEL)] | Whole | float | bool
Instance = Annotated[
    list[float | None] | dict[str, Any],
    Meta(
        description="A list in the model's order, or an object by name, which may have more; null is a gap."
    ),
]


class PredictRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Instances to predict. The same id again, with the same features, gives the stored answer."""

    instances: Annotated[list[Instance], Meta(min_length=1)]
    ids: Annotated[
        list[NewId] | None, Meta(description="One for each instance; made if there are none.")
    ] = None
    explain: Annotated[bool, Meta(description="Also probabilities, votes and weights.")] = False


class LabelledInstances(PredictRequest, kw_only=True):
    """Instances, each predicted before its label is learned."""

    labels: Annotated[list[Label], Meta(min_length=1, description="One for each instance.")]


class ExplainRequest(Struct, forbid_unknown_fields=True):
    """An instance whose prediction is to be explained; without a reference against the mean row of the sources."""

    instance: Instance
    reference: Instance | None = None


class Contributions(Struct):
    """What each column added: `columns` and `interactions` add up to `value - reference_value`."""

    what: str
    value: float
    reference_value: float
    columns: dict[str, float]
    interactions: float


class EventLabel(Struct, forbid_unknown_fields=True):
    """The label of one event."""

    id: Id
    label: Label


class LabelRequest(Struct, forbid_unknown_fields=True):
    """Labels of events that were predicted."""

    labels: Annotated[list[EventLabel], Meta(min_length=1)]


class ForgetRequest(Struct, forbid_unknown_fields=True):
    """Events to forget."""

    ids: Annotated[list[Id], Meta(min_length=1)]


class Model(Struct):
    """What a model or fleet is; without numbers while it is not ready. Lists of models leave out the last four."""

    name: str
    ready: bool
    error: str | UnsetType = UNSET
    notice: Annotated[str | UnsetType, Meta(description="What to look at though it answers.")] = (
        UNSET
    )
    method: str | UnsetType = UNSET
    features: int | UnsetType = UNSET
    classes: list[Any] | UnsetType = UNSET
    events: int | UnsetType = UNSET
    labels: int | UnsetType = UNSET
    task: Annotated[str | UnsetType, Meta(description="classes or numbers: what it predicts.")] = (
        UNSET
    )
    mistakes: int | UnsetType = UNSET
    rmse: float | UnsetType | None = UNSET
    inside: Annotated[
        float | UnsetType | None, Meta(description="Share of labels inside their interval.")
    ] = UNSET
    reading: str | UnsetType = UNSET
    feature_names: list[str] | UnsetType | None = UNSET
    sources: list[str] | UnsetType = UNSET
    experts: list[str] | UnsetType = UNSET
    truncated: Annotated[
        dict[str, int] | UnsetType,
        Meta(description="Lists that are too long to be shown whole: how long they are."),
    ] = UNSET


Key = Annotated[str, Meta(min_length=1, max_length=200)] | Whole


class FleetRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Instances, each for its key."""

    keys: Annotated[list[Key], Meta(min_length=1, description="One for each instance.")]
    instances: Annotated[list[Instance], Meta(min_length=1)]


class FleetPredict(FleetRequest, kw_only=True):
    """Instances to predict, each for its key; with ids each is an event, which a label can follow."""

    ids: Annotated[
        list[NewId] | None,
        Meta(description="One for each instance; other keys may have the same ones."),
    ] = None
    explain: Annotated[
        bool, Meta(description="Also the probability of every class, or every interval.")
    ] = False


class FleetLearn(FleetRequest, kw_only=True):
    """Labelled instances, each for its key. A batch whose id was learned lately is not learned again."""

    labels: Annotated[list[Label], Meta(min_length=1, description="One for each instance.")]
    id: (
        Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$", description="Of the batch.")] | None
    ) = None


class KeyedLabel(EventLabel, forbid_unknown_fields=True):
    """The label of one event of a key."""

    key: Key


class FleetLabelRequest(Struct, forbid_unknown_fields=True):
    """Labels of events of keys that were predicted."""

    labels: Annotated[list[KeyedLabel], Meta(min_length=1)]


class ForgetKeys(Struct, forbid_unknown_fields=True):
    """Keys to forget."""

    keys: Annotated[list[Key], Meta(min_length=1)]


class Forgotten(Struct):
    """What was there and is forgotten."""

    forgotten: list[Any]
    pending: Annotated[
        bool, Meta(description="A reader, such as an export, still keeps older pages of the file.")
    ]


class DeleteQuery(Struct):
    """That what the path names is meant, and nothing that it became on its way."""

    confirm: Annotated[str, Meta(description="The name once more.")]


class FleetPredictions(Struct):
    """In the order of the instances; of a batch that was learned, those made before its labels were."""

    predictions: list[Prediction]
    duplicate: Annotated[
        bool, Meta(description="The batch was learned before; nothing was done.")
    ] = False


class HistoryQuery(Struct):
    """How many of the newest points; all of them if it is not given."""

    n: Annotated[int, Meta(ge=1)] | None = None


class LatestQuery(Struct):
    """How many of the newest events, up to which number, and whether with their rows."""

    n: Annotated[int, Meta(ge=1, le=1000)] = 50
    until: Annotated[int, Meta(ge=1, le=LAST)] = LAST
    features: bool = False


class ExportQuery(Struct):
    """Which format."""

    format: Literal["jsonl", "parquet"] = "jsonl"


class Readiness(Struct):
    """Whether requests can be served, and how many models are ready and unusable."""

    ready: bool
    models: dict[str, int]


class ProblemKind(Struct):
    """What a type of problem means."""

    type: str
    title: str
    status: int
    meaning: str


# -- JSON -------------------------------------------------------------------------------------------------------

# msgspec says where a body is wrong only in its message: tests/unit/test_service_messages.py, and its bound above
_AT = re.compile(r"(?P<detail>.*?)(?: - at `\$\.?(?P<at>.*)`)?", re.DOTALL)
_FIELD = re.compile(
    r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL
)


def _encodable(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


_encode = msgspec.json.Encoder(enc_hook=_encodable).encode  # a number that is not finite is null
_decoder = cache(msgspec.json.Decoder)


def encode(value: Any) -> bytes:
    """An answer as JSON; half of a surrogate pair, in a name or class of a model made elsewhere, is a question mark."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_encodable, str_keys=True)
        return _encode(json.loads(json.dumps(plain, ensure_ascii=False).encode(errors="replace")))


def decode(data: bytes, kind: type[T]) -> T:
    """A JSON body as a type of this module."""
    try:
        body: T = _decoder(kind).decode(data)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        try:
            msgspec.json.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as malformed:
            if not isinstance(malformed, msgspec.ValidationError):
                raise Problem("malformed", f"not JSON: {malformed}") from None
        raise _refused(error, kind) from None
    return body


def convert(query: Mapping[str, Any], kind: type[T]) -> T:
    """The query of an address, or a form, as a type of this module."""
    try:
        return msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(error, kind) from None


def _refused(error: Exception, kind: Any) -> Problem:
    """msgspec's error, with the path of the field as callers write it."""
    parts = _AT.fullmatch(str(error))
    assert parts is not None
    field = parts["at"] or ""
    detail = parts["detail"]
    named = _FIELD.fullmatch(detail)
    if named:
        known = "" if field else f"; there are {', '.join(sorted(kind.__struct_fields__))}"
        field = f"{field}.{named['name']}".lstrip(".")[:200]
        detail = "missing" if named["what"] == "missing required" else f"unknown field{known}"
    return invalid(field or "body", detail)


# -- what types do not say --------------------------------------------------------------------------------------


def kind_of(value: Any) -> str:
    """JSON's name for what a value is; the value itself may be private.

    >>> kind_of([1]), kind_of(None), kind_of(1.5), kind_of(2)
    ('a list', 'null', 'a number', 'a number')
    """
    kinds = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "a boolean",
        float: "a number",
        int: "a number",
    }
    return "null" if value is None else kinds.get(type(value), type(value).__name__)


def check_ids(body: PredictRequest) -> None:
    """One printable id for each instance, none of them twice."""
    ids = body.ids
    if ids is None:
        return
    check_one_each(body, "ids")
    check_printable(ids)
    if len(set(ids)) < len(ids):
        twice = next(i for i, id in enumerate(ids) if id in ids[:i])
        raise invalid(f"ids[{twice}]", "occurs twice; give every instance an id of its own")


def check_printable(ids: list[str], field: str = "ids[{}]") -> None:
    """Refuse ids with control characters."""
    for i, id in enumerate(ids):
        if not id.isprintable():
            raise invalid(field.format(i), f"must have printable characters only, not {id[:40]!r}")


def check_one_each(body: Any, field: str) -> None:
    """Refuse a field of a body that has not one entry for each instance."""
    count = len(getattr(body, field))
    wanted = len(body.instances)
    if count != wanted:
        raise invalid(field, f"{count} {field} for {wanted} instances; give one for each")
