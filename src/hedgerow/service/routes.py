"""The operations on models and fleets: predict, label, look, delete, export; events; health, metrics and the page."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import UNSET
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from hedgerow.client import KeyPrediction, LabelResult, Prediction
from hedgerow.core.arrays import Array
from hedgerow.core.errors import HedgerowError
from hedgerow.core.values import plain
from hedgerow.fleet import Fleet
from hedgerow.live import Answer, LiveModel, NumberAnswer
from hedgerow.live.engine import Encoded
from hedgerow.live.steps import Snapshots
from hedgerow.regressor import OnlineTransferRegressor
from hedgerow.service import schemas
from hedgerow.service.metrics import exposition
from hedgerow.service.models import Entry, happens
from hedgerow.service.operations import BINARY, Call, Later, operation
from hedgerow.service.schemas import KINDS, KeyPredictions, Problem, encode

T = TypeVar("T")
MODEL, FLEET = "/v1/models/{name}", "/v1/fleets/{name}"
BYTES = {"schema": {"type": "string", "format": "binary"}}
REMEMBERED = 512  # batches of a fleet whose ids are known: more than may wait, and be sent again

# -- events: these come by the thousand -------------------------------------------------------------------------


@operation("POST", f"{MODEL}/predict", "predict", under="predictions")
async def predict(call: Call, body: schemas.PredictRequest) -> list[Prediction] | Later[list[Prediction]]:
    """Predict one instance or a batch; each is an event, which a label can follow."""
    X, ids = _instances(call, body)
    if len(body.instances) == 1 and not body.explain:
        one = await call.ask(call.live.aio.predict, X.one(0), None if ids is None else ids[0])
        return [_prediction(one, False)]
    answers = await call.ask(call.live.aio.predict_many, X, ids, body.explain)
    return lambda: [_prediction(answer, body.explain) for answer in answers]


@operation("POST", f"{MODEL}/explain", "predict")
def explain(call: Call, body: schemas.ExplainRequest) -> schemas.Contributions:
    """What each column adds to the prediction of an instance; it is no event, and nothing is learned."""
    x = call.entry.rows([body.instance], "instance")[0]
    reference = None if body.reference is None else call.entry.rows([body.reference], "reference")[0]
    parts = call.live.clf.explain_one(x, by_column=True, reference=reference).contributions
    assert parts is not None
    return schemas.Contributions(*parts[:5])


@operation("POST", f"{MODEL}/label", "learn", under="results")
async def label(call: Call, body: schemas.LabelRequest) -> list[LabelResult]:
    """Give labels of events, in any order; the same label twice is learned once."""
    check_count(call, "labels", body.labels)
    schemas.check_printable([one.id for one in body.labels], "labels[{}].id")
    pairs = [(one.id, one.label) for one in body.labels]
    if len(pairs) == 1:
        results = [await call.ask(call.live.aio.label, *pairs[0])]
    else:
        results = await call.ask(call.live.aio.label_many, pairs)
    return [LabelResult(r.id, r.status, r.detail) for r in results]  # type: ignore[arg-type]


@operation("POST", f"{MODEL}/predict-then-learn", "learn", under="predictions")
async def predict_then_learn(call: Call, body: schemas.LabelledInstances) -> list[Prediction] | Later[list[Prediction]]:
    """Predict each instance, then learn its label, in order: the fastest way when the labels are there."""
    X, ids = _instances(call, body)
    schemas.check_one_each(body, "labels")
    answers = await call.ask(call.live.aio.predict_then_learn, X, body.labels, ids)
    return lambda: [_prediction(answer, body.explain) for answer in answers]


@operation("POST", f"{FLEET}/predict", "predict")
async def fleet_predict(call: Call, body: schemas.FleetPredict) -> KeyPredictions | Later[KeyPredictions]:
    """Predict instances, each by what its key has learned; a key that is new predicts as the sources do."""
    X = _keyed_rows(call, body)
    if body.explain:
        _check_answer(call, call.entry.classes, [], len(X))
    predicted, levels = await _do(call, lambda fleet: (fleet.predictions(body.keys, X), fleet.base.clf.coverage_))

    def answer() -> KeyPredictions:
        rows: dict[int, KeyPrediction] = {}
        for some in predicted:
            if some.half is not None:
                for i, number, half in zip(some.places, some.P.tolist(), some.half.tolist(), strict=True):
                    ends = {str(level): (number - h, number + h) for level, h in zip(levels, half, strict=True)}
                    one, every = next(iter(ends.values())), ends if body.explain else None
                    rows[i] = KeyPrediction(body.keys[i], prediction=number, interval=one, intervals=every)
                continue
            labels = [plain(label) for label in some.classes]
            for i, shares, code in zip(some.places, some.P.tolist(), some.P.argmax(axis=1).tolist(), strict=True):
                all_of = dict(zip(map(str, labels), shares, strict=True)) if body.explain else None
                rows[i] = KeyPrediction(body.keys[i], labels[code], shares[code], all_of)
        return KeyPredictions([rows[i] for i in range(len(body.keys))])

    return answer


@operation("POST", f"{FLEET}/learn", "learn")
async def fleet_learn(call: Call, body: schemas.FleetLearn) -> KeyPredictions | Later[KeyPredictions]:
    """Learn labelled instances, each for its key, in order; what was predicted before is answered."""
    X = _keyed_rows(call, body)
    schemas.check_one_each(body, "labels")

    def learn(fleet: Fleet) -> list[KeyPrediction] | None:
        mark = fleet.mark if isinstance(fleet.mark, dict) else {}
        learned = mark.get("batches", [])
        if body.id in learned:
            return None
        if body.id is not None:  # on disk with the rows, or not at all
            mark = {**mark, "batches": [*learned[1 - REMEMBERED :], body.id]}
        labels = fleet.predict_then_learn(body.keys, X, body.labels, mark=mark or None)
        field = "prediction" if isinstance(fleet.base.clf, OnlineTransferRegressor) else "label"
        return [KeyPrediction(key, **{field: plain(label)}) for key, label in zip(body.keys, labels, strict=True)]

    predictions = await _do(call, learn)
    return lambda: KeyPredictions(predictions or [], duplicate=predictions is None)


async def _do(call: Call, work: Callable[[Fleet], T]) -> T:
    """Work in the one thread of the fleet, in the order of the requests."""
    entry = call.entry
    entry.check_ready()
    assert entry.fleet is not None
    return await call.ask(asyncio.get_running_loop().run_in_executor, entry.pool, work, entry.fleet)


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
    most, lengths = call.models.settings.max_answer, [len(str(label)) for label in classes]
    size = sum(lengths) + NUMBER * len(lengths)
    size += sum(2 * len(name) + max(lengths, default=0) + NUMBER for name in experts)
    if rows * size > most:
        fit = most // size
        raise Problem("too-large", f"explain: {rows} rows of this model are more than {most} bytes; ask for {fit} rows")


NUMBER = 30  # bytes of a number in JSON and what stands around it


def _prediction(answer: Answer, explain: bool) -> Prediction:
    about: dict[str, Any] = {"votes": answer.votes, "weights": answer.weights} if explain else {}
    if isinstance(answer, NumberAnswer):
        about |= {"prediction": answer.label, "interval": answer.interval}
        if explain:
            about["intervals"] = {str(level): interval for level, interval in answer.intervals.items()}
    else:
        about |= {"label": answer.label, "probability": answer.probability}
        if explain:
            about["probabilities"] = {str(label): p for label, p in answer.probabilities.items()}
    return Prediction(id=answer.id, repeated=answer.repeated, **about)


# -- models -----------------------------------------------------------------------------------------------------

SHORT = ("task", "method", "features", "classes", "events", "labels", "mistakes", "rmse", "inside")
LONG = (*SHORT, "reading", "feature_names", "sources", "experts")
FEW_NAMES, MANY_NAMES = 1000, 10_000  # entries of a list or mapping in an answer: in the list of models, of one model


def bounded(values: Mapping[str, Any], most: int = MANY_NAMES) -> dict[str, Any]:
    """Lists and mappings (a class, expert or feature each) with at most so many entries; `truncated` has the others."""
    short = dict(values)
    truncated = {
        key: len(value) for key, value in values.items() if isinstance(value, list | dict) and len(value) > most
    }
    for key in truncated:
        kept = itertools.islice(values[key].items() if isinstance(values[key], dict) else values[key], most)
        short[key] = type(values[key])(kept)
    return {**short, "truncated": truncated} if truncated else short


def summary(entry: Entry, keys: tuple[str, ...] = LONG, most: int = MANY_NAMES) -> schemas.Model:
    """What a model or fleet says about itself, in a thread."""
    if entry.state != "ready":
        return schemas.Model(entry.name, False, entry.error or f"the {entry.kind} is {entry.state}")
    about = entry.about()
    about = bounded({key: about[key] for key in keys if key in about}, most)
    return schemas.Model(entry.name, True, notice=entry.notice or UNSET, **about)


@operation("GET", "/v1/models", "read", id="list_models", under="models")
@operation("GET", "/v1/fleets", "read", id="list_fleets", under="fleets")
def listed(call: Call) -> list[schemas.Model]:
    """The models, or fleets, that the caller may read."""
    entries = [entry for entry in call.models if entry.kind == call.kind and call.caller.may("read", entry.name)]
    return [summary(entry, SHORT, FEW_NAMES) for entry in entries]


@operation("GET", MODEL, "read", id="get_model")
@operation("GET", FLEET, "read", id="get_fleet")
def get(call: Call) -> schemas.Model:
    """What a model or fleet is, and how it is."""
    tag(call)
    return summary(call.entry)


def tag(call: Call) -> None:
    """Send the tag of the model that was put in this place: what it learns does not change it, `replace` does."""
    if call.entry.live is not None:
        call.sent_headers["ETag"] = f'"{call.entry.live.stats()["model"]["digest"]}"'


@operation("DELETE", MODEL, "admin", id="delete_model", status=204)
@operation("DELETE", FLEET, "admin", id="delete_fleet", status=204)
async def delete(call: Call) -> None:
    """Close a model or fleet and remove its state, journal and snapshots, and the file that it began with."""
    await call.models.delete(call.entry.name)


@operation("GET", f"{MODEL}/stats", "read")
@operation("GET", f"{FLEET}/stats", "read", id="fleet_stats")
def stats(call: Call) -> dict[str, Any]:
    """Counts, weights, discrepancy, balance of classes, calibration, latency, sizes; of a fleet keys and bytes."""
    entry = call.entry
    entry.check_ready()
    return bounded(entry.opened.stats())  # type: ignore[union-attr]


@operation("GET", f"{MODEL}/history", "read", under="points")
def history(call: Call) -> list[dict[str, Any]]:
    """Mistakes, weights and discrepancy over time; of a model with very many experts, every second point or fewer."""
    points = call.live.history()
    values = points[-1].values() if points else ()
    size = len(points) * NUMBER * sum(len(value) if isinstance(value, list) else 1 for value in values)
    return points[:: -max(1, math.ceil(size / call.models.settings.max_answer))][::-1]  # the newest is among them


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


@operation("POST", f"{MODEL}/forget", "admin", under="forgotten")
async def forget(call: Call, body: schemas.ForgetRequest) -> list[str]:
    """Remove events by their ids: rows, predictions and labels. What was learned from them stays."""
    check_count(call, "ids", body.ids)
    schemas.check_printable(body.ids)
    return await call.ask(call.live.aio.look, lambda live: live.forget(*body.ids))


@operation("DELETE", f"{FLEET}/keys/{{key}}", "admin", status=204, errors=(429, 504))
async def forget_key(call: Call, query: schemas.KeyQuery) -> None:
    """Forget all that a key has learned: text or, with ?whole=true, a whole number."""
    key: str | int = call.path_params["key"]
    if query.whole:
        key = schemas.convert({"key": str(key)}, schemas.WholeKey).key
    await _do(call, lambda fleet: fleet.forget(key))


# -- files ------------------------------------------------------------------------------------------------------

EXPORTS = {"jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}


@operation("GET", f"{MODEL}/export", "read", gives=dict.fromkeys(EXPORTS.values(), BYTES), errors=(429,))
async def export(call: Call, query: schemas.ExportQuery) -> Response:
    """The events that the journal still has, with features, predictions and labels."""
    path = call.models.scratch("export").with_suffix(f".{query.format}")
    return Download(call, path, f"{call.name}.{query.format}", EXPORTS[query.format], call.live.export)


@operation("GET", f"{MODEL}/model", "read", gives={BINARY: BYTES}, errors=(429,))
async def download_model(call: Call) -> Response:
    """The newest snapshot as a model file; POST .../snapshot takes a new one."""
    snapshots = Snapshots(call.live.folder)
    return Download(call, snapshots.path(snapshots.newest_number), f"{call.name}.safetensors", BINARY)


class Download(FileResponse):
    """A file for one caller, who is left if the next part is not read in time; some are sent at the same time.

    `make` writes it first, and it is gone when it was sent, or when the caller went.
    """

    chunk_size = 1 << 20

    def __init__(
        self, call: Call, path: Path, name: str, kind: str, make: Callable[[Path], object] | None = None
    ) -> None:
        super().__init__(path, filename=name, media_type=kind)
        self._models, self._path, self._make = call.models, path, make
        if self._models.downloads >= self._models.settings.max_exports:
            raise Problem("busy", f"{self._models.downloads} exports are on their way, as many as allowed")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the file, and send it part by part."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._models.settings.write_timeout):
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
                self._path.unlink(missing_ok=True)


# -- server-sent events -----------------------------------------------------------------------------------------

EVERY = 0.5  # seconds between two events at least
HEARTBEAT = 10.0  # seconds between comment lines, so that nobody takes silence for an end
LATEST = {"classes": 20, "numbers": 100}  # events for a table; of numbers also for a chart of their intervals
STREAM = "text/event-stream"


@operation("GET", f"{MODEL}/events", "read", gives={STREAM: {"schema": {"type": "string"}}}, errors=(429,))
async def events(call: Call) -> Response:
    """Server-sent events: `stats` at most twice a second while something changes."""
    call.entry.check_ready()
    readers = sum(entry.broadcast.readers for entry in call.models if entry.broadcast is not None)
    if readers >= call.models.settings.max_streams:
        raise Problem("busy", f"{readers} readers of events are connected, as many as allowed")
    entry = call.entry
    if entry.broadcast is None:
        entry.broadcast = Broadcast(entry, call.models.stopping)
    return StreamingResponse(entry.broadcast.stream(), media_type=STREAM)


class Broadcast:
    """The events of one model: made once for all its readers, of whom a slow one misses some."""

    def __init__(self, entry: Entry, stopping: asyncio.Event) -> None:
        self._entry, self._stopping, self._lock = entry, stopping, asyncio.Lock()
        self._marker: Any = None  # the counts that `_text` tells
        self._text, self._asked = b"", -EVERY
        self.readers = 0

    async def stream(self) -> AsyncIterator[bytes]:
        """Events until the service or the model ends, or the reader goes."""
        self.readers += 1
        sent, spoke = b"", time.monotonic()
        try:
            yield b"retry: 2000\n\n"
            while (text := await self._newest()) is not None:
                if text is not sent:
                    sent, spoke = text, time.monotonic()
                    yield text
                elif time.monotonic() - spoke >= HEARTBEAT:
                    spoke = time.monotonic()
                    yield b": still here\n\n"
                if await happens(self._stopping, EVERY):
                    break
        finally:
            self.readers -= 1

    async def _newest(self) -> bytes | None:
        """The newest event, asked for at most every so often; None if the model is closed."""
        async with self._lock:
            live = self._entry.live
            if live is None:
                return None
            if time.monotonic() - self._asked >= EVERY / 2:
                try:
                    self._marker, self._text = await asyncio.to_thread(_event, live, self._marker, self._text)
                except HedgerowError:  # closed meanwhile: the readers are told by the end of their streams
                    return None
                self._asked = time.monotonic()
            return self._text


def _event(live: LiveModel, marker: Any, text: bytes) -> tuple[Any, bytes]:
    """What is there now, and its counts; the same `text` if they are those of `marker`."""
    stats, alarms = live.stats(), live.alarms()
    counts = [stats[key] for key in ("events", "labels", "expired", "pending", "unknown_labels")]
    now = (counts, [(alarm["rule"], alarm["since"]) for alarm in alarms])
    if now == marker:
        return now, text
    points = live.history()
    data: dict[str, Any] = {"stats": bounded(stats, FEW_NAMES), "point": points[-1] if points else None}
    data |= {"latest": live.latest(LATEST[stats["task"]]), "alarms": alarms}
    return now, b"event: stats\ndata: " + encode(data) + b"\n\n"


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
    entries = [entry for entry in call.models if call.caller.may("read", entry.name)]
    text = await asyncio.to_thread(exposition, call.app.state.requests, entries)
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
    return [*(Route(path, partial(page, name)) for path, name in named.items()), Mount("/static", files)]
