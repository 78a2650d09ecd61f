"""The operations on models and fleets: predict, label, look, upload, delete, export; health, metrics and the page."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import UNSET
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from hedgerow.client import Prediction
from hedgerow.core.arrays import Array
from hedgerow.core.values import LabelResult, plain
from hedgerow.fleet import Fleet
from hedgerow.live import Answer
from hedgerow.live.engine import Encoded
from hedgerow.live.journal import Snapshots
from hedgerow.service import schemas
from hedgerow.service.check import check_apart
from hedgerow.service.metrics import exposition, numbers_of
from hedgerow.service.models import Entry, discard
from hedgerow.service.operations import BINARY, Call, Later, operation
from hedgerow.service.schemas import KINDS, FleetPredictions, Problem

T = TypeVar("T")
MODEL = "/v1/models/{name}"
FLEET = "/v1/fleets/{name}"
BYTES = {"schema": {"type": "string", "format": "binary"}}

# -- events: these come by the thousand -------------------------------------------------------------------------


@operation("POST", f"{MODEL}/predict", "predict", under="predictions")
async def predict(
    call: Call, body: schemas.PredictRequest
) -> list[Prediction] | Later[list[Prediction]]:
    """Predict one instance or a batch; each is an event, which a label can follow."""
    X, ids = _instances(call, body)
    if len(body.instances) == 1 and not body.explain:
        one = await call.ask(call.live.aio.predict, X.one(0), None if ids is None else ids[0])
        return [_prediction(one, False)]
    answers = await call.ask(call.live.aio.predict, X, ids, explain=body.explain)
    return lambda: [_prediction(answer, body.explain) for answer in answers]


@operation("POST", f"{MODEL}/explain", "predict")
def explain(call: Call, body: schemas.ExplainRequest) -> schemas.Contributions:
    """What each column adds to the prediction of an instance; it is no event, and nothing is learned."""
    x = call.entry.rows([body.instance], "instance")[0]
    reference = (
        None if body.reference is None else call.entry.rows([body.reference], "reference")[0]
    )
    parts = call.live.clf.explain_one(x, by_column=True, reference=reference).contributions
    assert parts is not None
    return schemas.Contributions(*parts[:5])


@operation("POST", f"{MODEL}/label", "learn", under="results")
async def label(call: Call, body: schemas.LabelRequest) -> list[LabelResult]:
    """Give labels of events, in any order; the same label twice is learned once."""
    pairs = [(one.id, one.label) for one in _labels(call, body)]
    if len(pairs) == 1:  # which is done with those of other requests
        return [await call.ask(call.live.aio.label, *pairs[0])]
    return await call.ask(call.live.aio.label_many, pairs)


@operation("POST", f"{MODEL}/predict-then-learn", "learn", under="predictions")
async def predict_then_learn(
    call: Call, body: schemas.LabelledInstances
) -> list[Prediction] | Later[list[Prediction]]:
    """Predict each instance, then learn its label, in order: the fastest way when the labels are there."""
    X, ids = _instances(call, body)
    schemas.check_one_each(body, "labels")
    answers = await call.ask(call.live.aio.predict_then_learn, X, body.labels, ids)
    return lambda: [_prediction(answer, body.explain) for answer in answers]


@operation("POST", f"{FLEET}/predict", "predict")
async def fleet_predict(
    call: Call, body: schemas.FleetPredict
) -> FleetPredictions | Later[FleetPredictions]:
    """Predict instances, each by what its key has learned; a key that is new predicts as the sources do."""
    X = _keyed_rows(call, body)
    if body.explain:
        _check_answer(call, call.entry.classes, [], len(X))
    if (ids := body.ids) is not None:
        schemas.check_one_each(body, "ids")
        schemas.check_printable(ids)
        answers = await _do(call, lambda fleet: fleet.predict(body.keys, X, ids))
        pairs = zip(body.keys, answers, strict=True)
        return lambda: FleetPredictions(
            [_prediction(answer, body.explain, key=key) for key, answer in pairs]
        )
    predicted, levels = await _do(
        call, lambda fleet: (fleet.predictions(body.keys, X), fleet.base.clf.coverage_)
    )

    def answer() -> FleetPredictions:
        rows: dict[int, Prediction] = {}
        for some in predicted:
            scale = [plain(label) for label in some.classes] or list(levels)
            for i, P, code in zip(
                some.places, some.P.tolist(), some.P.argmax(axis=1).tolist(), strict=True
            ):
                one = some.task.answer("", i, code, P, scale, None, None, False)
                rows[i] = Prediction(key=body.keys[i], **one.fields(body.explain))
        return FleetPredictions([rows[i] for i in range(len(body.keys))])

    return answer


@operation("POST", f"{FLEET}/learn", "learn")
async def fleet_learn(
    call: Call, body: schemas.FleetLearn
) -> FleetPredictions | Later[FleetPredictions]:
    """Learn labelled instances, each for its key, in order; what was predicted before is answered."""
    X = _keyed_rows(call, body)
    schemas.check_one_each(body, "labels")

    def learn(fleet: Fleet) -> list[Prediction] | None:
        labels = fleet.predict_then_learn(body.keys, X, body.labels, id=body.id)
        if labels is None:
            return None
        field = fleet.base.task.field
        return [
            Prediction(key=key, **{field: plain(label)})
            for key, label in zip(body.keys, labels, strict=True)
        ]

    predictions = await _do(call, learn)
    return lambda: FleetPredictions(predictions or [], duplicate=predictions is None)


@operation("POST", f"{FLEET}/label", "learn", under="results")
async def fleet_label(call: Call, body: schemas.FleetLabelRequest) -> list[LabelResult]:
    """Give labels of events of keys, in any order; the same label twice is learned once."""
    labels = [(one.key, one.id, one.label) for one in _labels(call, body)]
    return await _do(call, lambda fleet: fleet.label_many(labels))


def _labels(call: Call, body: schemas.LabelRequest | schemas.FleetLabelRequest) -> list[Any]:
    check_count(call, "labels", body.labels)
    schemas.check_printable([one.id for one in body.labels], "labels[{}].id")
    return list(body.labels)


async def _do(call: Call, work: Callable[[Fleet], T]) -> T:
    """Work in the one thread of the fleet, in the order of the requests."""
    entry = call.entry
    entry.check_ready()
    assert isinstance(entry.opened, Fleet)
    return await call.ask(
        asyncio.get_running_loop().run_in_executor, entry.writes, work, entry.opened
    )


def check_count(call: Call, field: str, items: list[Any]) -> None:
    """Refuse more than one request may have."""
    most = call.models.settings.max_rows
    if len(items) > most:
        raise Problem("too-large", f"{field}: {len(items)} entries; at most {most} in one request")


def _instances(call: Call, body: schemas.PredictRequest) -> tuple[Encoded, list[str] | None]:
    """The rows and ids of a body, after everything that depends on the model was checked."""
    check_count(call, "instances", body.instances)
    schemas.check_ids(body)
    if body.explain:
        _check_answer(call, call.entry.classes, call.live.clf.expert_names_, len(body.instances))
    return Encoded(call.entry.rows(body.instances), body.instances), body.ids


def _keyed_rows(call: Call, body: schemas.FleetRequest) -> Array:
    check_count(call, "instances", body.instances)
    schemas.check_one_each(body, "keys")
    return call.entry.rows(body.instances)


def _check_answer(call: Call, classes: list[Any], experts: list[str], rows: int) -> None:
    """Refuse to explain so many rows that the answer, whose size follows from classes and experts, is too large."""
    lengths = [len(str(label)) for label in classes]
    size = sum(lengths) + NUMBER * len(lengths)
    size += sum(2 * len(name) + max(lengths, default=0) + NUMBER for name in experts)
    if rows * size > MOST_BYTES:
        fit = MOST_BYTES // size
        detail = f"explain: {rows} rows of this model are more than {MOST_BYTES} bytes; ask for {fit} rows"
        raise Problem("too-large", detail)


MOST_BYTES = 64 << 20  # of an answer, estimated before the work: many such answers fit into memory
NUMBER = 30  # bytes of a number in JSON and what stands around it


def _prediction(answer: Answer, explain: bool, **about: Any) -> Prediction:
    about |= {"votes": answer.votes, "weights": answer.weights} if explain else {}
    return Prediction(id=answer.id, repeated=answer.repeated, **about, **answer.fields(explain))


# -- models -----------------------------------------------------------------------------------------------------

SHORT = ("task", "method", "features", "classes", "events", "labels", "mistakes", "rmse", "inside")
LONG = (*SHORT, "reading", "feature_names", "sources", "experts")
FEW_NAMES = 1000  # entries of a list or mapping in an answer about many models
MANY_NAMES = 10_000  # the same about one model


def bounded(values: Mapping[str, Any], most: int = MANY_NAMES) -> dict[str, Any]:
    """Lists and mappings (a class, expert or feature each) with at most so many entries; `truncated` has the others."""
    short = dict(values)
    truncated = {
        key: len(value)
        for key, value in values.items()
        if isinstance(value, list | dict) and len(value) > most
    }
    for key in truncated:
        kept = itertools.islice(
            values[key].items() if isinstance(values[key], dict) else values[key], most
        )
        short[key] = type(values[key])(kept)
    return {**short, "truncated": truncated} if truncated else short


def summary(
    entry: Entry, about: dict[str, Any] | str, keys: tuple[str, ...] = LONG, most: int = MANY_NAMES
) -> schemas.Model:
    """What a model or fleet has said about itself, or why it says nothing."""
    if isinstance(about, str):
        return schemas.Model(entry.name, False, about)
    known = bounded({key: about[key] for key in keys if key in about}, most)
    return schemas.Model(entry.name, True, notice=entry.notice or UNSET, **known)


async def _each(call: Call, read: Callable[[Entry], T]) -> list[tuple[Entry, T | str]]:
    """What `read` says of each model and fleet that the caller may read, all at once; a text where one cannot."""
    entries = [entry for entry in call.models if call.caller.may("read", entry.name)]
    told = await asyncio.gather(*(entry.told(partial(read, entry)) for entry in entries))
    return list(zip(entries, told, strict=True))


@operation("GET", "/v1/models", "read", id="list_models", under="models")
@operation("GET", "/v1/fleets", "read", id="list_fleets", under="fleets")
async def listed(call: Call) -> list[schemas.Model]:
    """The models, or fleets, that the caller may read."""
    found = await _each(call, lambda entry: entry.about())
    return [
        summary(entry, about, SHORT, FEW_NAMES) for entry, about in found if entry.kind == call.kind
    ]


@operation("GET", MODEL, "read", id="get_model")
@operation("GET", FLEET, "read", id="get_fleet")
async def get(call: Call) -> schemas.Model:
    """What a model or fleet is, and how it is."""
    about = await call.entry.told(call.entry.about)
    if (
        isinstance(about, dict) and "model" in about
    ):  # what it learns does not change it, `replace` does
        call.sent_headers["ETag"] = f'"{about["model"]["digest"]}"'
    return summary(call.entry, about)


@operation("GET", f"{MODEL}/ready", "read", id="model_ready", under="ready")
@operation("GET", f"{FLEET}/ready", "read", id="fleet_ready", under="ready")
async def ready(call: Call) -> Literal[True]:
    """Whether this model or fleet can be asked; a problem that says why not."""
    call.entry.check_ready()
    return True


@operation("DELETE", MODEL, "admin", id="delete_model", status=204)
@operation("DELETE", FLEET, "admin", id="delete_fleet", status=204)
async def delete(call: Call, query: schemas.DeleteQuery) -> None:
    """Close a model or fleet and remove its state, journal and snapshots, and the file that it began with."""
    name = call.entry.name
    if query.confirm != name:  # an address that was cut short on its way names another
        raise schemas.invalid("confirm", f"must be {name!r}, the name of what is to be deleted")
    await call.models.delete(name)


@operation("GET", f"{MODEL}/stats", "read")
@operation("GET", f"{FLEET}/stats", "read", id="fleet_stats")
def stats(call: Call) -> dict[str, Any]:
    """Counts, weights, discrepancy, balance of classes, calibration, latency, sizes; of a fleet keys and bytes."""
    call.entry.check_ready()
    return bounded(call.entry.opened.stats())  # type: ignore[union-attr]


@operation("GET", f"{MODEL}/history", "read", under="points")
def history(call: Call, query: schemas.HistoryQuery) -> list[dict[str, Any]]:
    """Mistakes, weights and discrepancy over time; of a model with very many experts, every second point or fewer."""
    points = call.live.history()
    if query.n is not None:
        points = points[-query.n :]
    values = points[-1].values() if points else ()
    size = (
        len(points) * NUMBER * sum(len(value) if isinstance(value, list) else 1 for value in values)
    )
    return points[:: -max(1, math.ceil(size / MOST_BYTES))][::-1]  # the newest is among them


@operation("GET", f"{MODEL}/latest", "read", under="events")
def latest(call: Call, query: schemas.LatestQuery) -> list[dict[str, Any]]:
    """The newest events with their labels, if these came."""
    return call.live.latest(query.n, until=query.until, features=query.features)


@operation("GET", f"{MODEL}/alarms", "read", under="alarms")
def alarms(call: Call) -> list[dict[str, Any]]:
    """What is wrong now, with the rule and the numbers behind it."""
    return call.live.alarms()


@operation("POST", f"{MODEL}/snapshot", "admin", errors=(429, 504))
async def snapshot(call: Call) -> dict[str, Any]:
    """Write the state to disk now."""
    return await call.ask(call.live.aio.snapshot)


@operation("POST", f"{MODEL}/forget", "admin")
async def forget(call: Call, body: schemas.ForgetRequest) -> schemas.Forgotten:
    """Remove events by their ids: rows, predictions and labels. What was learned from them stays."""
    check_count(call, "ids", body.ids)
    schemas.check_printable(body.ids)
    forgotten = await call.ask(call.live.aio.look, lambda live: live.forget(*body.ids))
    return schemas.Forgotten(forgotten, forgotten.pending)


@operation("POST", f"{FLEET}/forget", "admin")
async def forget_keys(call: Call, body: schemas.ForgetKeys) -> schemas.Forgotten:
    """Forget all that keys have learned, and their events."""
    check_count(call, "keys", body.keys)
    forgotten = await _do(call, lambda fleet: fleet.forget(*body.keys))
    return schemas.Forgotten(forgotten, forgotten.pending)


# -- files ------------------------------------------------------------------------------------------------------

EXPORTS = {"jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}


@operation(
    "GET", f"{MODEL}/export", "read", gives=dict.fromkeys(EXPORTS.values(), BYTES), errors=(429,)
)
async def export(call: Call, query: schemas.ExportQuery) -> Response:
    """The events that the journal still has, with features, predictions and labels."""
    path = call.models.scratch("export").with_suffix(f".{query.format}")
    return Download(
        call, path, f"{call.name}.{query.format}", EXPORTS[query.format], call.live.export
    )


@operation("GET", f"{MODEL}/model", "read", gives={BINARY: BYTES}, errors=(429,))
async def download_model(call: Call) -> Response:
    """The newest snapshot as a model file; POST .../snapshot takes a new one."""
    snapshots = Snapshots(call.live.folder)
    return Download(
        call, snapshots.path(snapshots.newest_number), f"{call.name}.safetensors", BINARY
    )


WRITE_SECONDS = 60.0  # in which a caller reads a megabyte of a file
DOWNLOADS = 2  # made or sent at the same time: each reads a whole journal or model from disk


class Download(FileResponse):
    """A file for one caller, who is left if the next part is not read in time; a few are sent at the same time.

    `make` writes it first, and it is gone when it was sent, or when the caller went.
    """

    chunk_size = 1 << 20

    def __init__(
        self,
        call: Call,
        path: Path,
        name: str,
        kind: str,
        make: Callable[[Path], object] | None = None,
    ) -> None:
        super().__init__(path, filename=name, media_type=kind)
        self._models = call.models
        self._path = path
        self._make = make
        if self._models.downloads >= DOWNLOADS:
            raise Problem(
                "busy", f"{self._models.downloads} exports are on their way, as many as allowed"
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the file, and send it part by part."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(WRITE_SECONDS):
                await send(message)

        self._models.downloads += 1
        try:
            if self._make is not None:
                await asyncio.to_thread(self._make, self._path)
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            raise ClientDisconnect from None
        finally:
            self._models.downloads -= 1
            if self._make is not None:
                discard(self._path)


UPLOAD_SECONDS = 600.0  # until a model file must have arrived: 1 GiB at 1.8 MB a second


@operation(
    "PUT",
    MODEL,
    "admin",
    id="create_model",
    status=201,
    sends={BINARY: BYTES},
    errors=(200, 409, 412),
)
@operation(
    "PUT", FLEET, "admin", id="create_fleet", status=201, sends={BINARY: BYTES}, errors=(409,)
)
async def create(call: Call) -> schemas.Model:
    """A model file (safetensors) becomes a live model of this name, or with If-Match takes the place of a running one.

    If-Match has the ETag of the model that is to be replaced, or *. Events stay; the new model learns what waits. In a
    fleet, a model file that has learned no label of a target becomes the start of every key.
    """
    expected = call.headers.get("if-match") if call.kind == "model" else None
    if expected is None:
        await _receive(call, call.models.reserve(call.name, call.kind))
    else:
        await _receive(call, call.entry, expected.strip('" ') if expected.strip() != "*" else None)
        call.status = 200
    call.sent_headers["Location"] = call.scope["path"]  # as callers reach it, also through a proxy
    return await get(call)


async def _receive(call: Call, entry: Entry, expected: str | None = None) -> None:
    """Check a model file that is sent; then it becomes the model of a reserved name, or replaces an open one."""
    models = call.models
    file = models.scratch("upload")
    try:
        call.check_type(BINARY, default=BINARY)
        with file.open("xb") as out:
            async for part in call.chunks(models.settings.max_upload, UPLOAD_SECONDS):
                await asyncio.to_thread(out.write, part) if len(part) > 1 << 20 else out.write(part)
        await check_apart(file)
        if entry.state == "arriving":
            await models.install(entry, file)
        else:
            await call.ask(asyncio.to_thread, entry.replace, file, expected)
    finally:
        models.release(entry)
        discard(file)


# -- the service itself -----------------------------------------------------------------------------------------


@operation("GET", "/healthz", under="status")
async def healthz(call: Call) -> Literal["alive"]:
    """Whether the process answers at all."""
    return "alive"


@operation("GET", "/readyz")
async def readyz(call: Call) -> schemas.Readiness:
    """Whether requests can be served: every model is open or known to be unusable, and not all of them are."""
    call.models.check_ready()
    states = [entry.state for entry in call.models]
    return schemas.Readiness(True, {state: states.count(state) for state in ("ready", "failed")})


@operation("GET", "/metrics", "read", gives={"text/plain": {"schema": {"type": "string"}}})
async def metrics(call: Call) -> Response:
    """Requests and latencies, and the numbers of the models that the caller may read, for Prometheus."""
    told = await _each(call, numbers_of)
    text = await asyncio.to_thread(exposition, call.app.state.requests, told)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@operation("GET", "/problems/{kind}")
async def problem_kind(call: Call) -> schemas.ProblemKind:
    """What a type of problem means."""
    name = call.path_params["kind"]
    if name not in KINDS:
        raise Problem("not-found", "there is no such type of problem")
    kind = KINDS[name]
    return schemas.ProblemKind(f"/problems/{name}", kind.title, kind.status, kind.meaning)


# -- the page ---------------------------------------------------------------------------------------------------

# The pages hold no data, so they are served without a token; what they read from the API needs one where the service
# has tokens, and the page asks for it.


class Page(StaticFiles):
    """Files of the package; kept by browsers, but asked for again with their tag: a new version is seen at once."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """A file, or 304."""
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def pages() -> list[BaseRoute]:
    """The list of models, one model live, and their scripts and styles."""
    files = Page(packages=[("hedgerow.service", "static")])

    async def page(name: str, request: Request) -> Response:
        return await files.get_response(name, request.scope)

    named = {"/": "index.html", "/models/{name}": "model.html"}
    return [
        *(Route(path, partial(page, name)) for path, name in named.items()),
        Mount("/static", files),
    ]
