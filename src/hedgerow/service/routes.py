"""The operations on models: predict, label, look, create, delete, export; events; health, metrics and the page."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar
from uuid import uuid4

from msgspec import UNSET
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from hedgerow.client import LabelResult, Prediction
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import Answer, LiveModel, NumberAnswer
from hedgerow.live.engine import Encoded
from hedgerow.live.look import export as write_export
from hedgerow.live.steps import Snapshots
from hedgerow.service import schemas
from hedgerow.service.metrics import exposition
from hedgerow.service.models import Entry, as_problem, happens
from hedgerow.service.operations import BINARY, Call, operation, query_of, respond, respond_from
from hedgerow.service.schemas import KINDS, LabelResults, Predictions, Problem, encode, invalid

T = TypeVar("T")
MODEL = "/v1/models/{name}"
BYTES = {"schema": {"type": "string", "format": "binary"}}

# -- events: these come by the thousand -------------------------------------------------------------------------


@operation("POST", f"{MODEL}/predict", "predict", body=schemas.PredictRequest, answer=Predictions)
async def predict(call: Call) -> Response:
    """Predict one instance or a batch; each is an event, which a label can follow."""
    call.live  # noqa: B018  # not ready: say so before the body is read
    body, entry = await call.json(schemas.PredictRequest), call.entry
    X, ids = _instances(call, body)
    live = call.live
    if len(body.instances) == 1 and not body.explain:
        one = await call.models.call(entry, lambda: live.aio.predict(X.one(0), None if ids is None else ids[0]))
        return respond(Predictions([_prediction(one, False)]))
    answers = await call.models.call(entry, lambda: live.aio.predict_many(X, ids, body.explain))
    return await respond_from(lambda: Predictions([_prediction(answer, body.explain) for answer in answers]))


@operation("POST", f"{MODEL}/explain", "predict", body=schemas.ExplainRequest, answer=schemas.Contributions)
async def explain(call: Call) -> Response:
    """What each column adds to the prediction of an instance; it is no event, and nothing is learned."""
    live, body = call.live, await call.json(schemas.ExplainRequest)
    x = rows_of(call.entry, [body.instance])[0]
    reference = None if body.reference is None else rows_of(call.entry, [body.reference])[0]

    def contributions() -> schemas.Contributions:
        parts = live.clf.explain_one(x, by_column=True, reference=reference).contributions
        assert parts is not None
        return schemas.Contributions(*parts[:5])

    try:
        return await respond_from(contributions)
    except InputError as error:  # more columns than are explained, or no mean row
        raise Problem("invalid", str(error)) from error


@operation("POST", f"{MODEL}/label", "learn", body=schemas.LabelRequest, answer=LabelResults)
async def label(call: Call) -> Response:
    """Give labels of events, in any order; the same label twice is learned once."""
    live = call.live
    body = await call.json(schemas.LabelRequest)
    check_count(call, "labels", body.labels)
    for i, one in enumerate(body.labels):
        schemas.check_printable(one.id, f"labels[{i}].id")
    pairs = [(one.id, one.label) for one in body.labels]
    if len(pairs) == 1:
        results = [await call.models.call(call.entry, lambda: live.aio.label(*pairs[0]))]
    else:
        results = await call.models.call(call.entry, lambda: live.aio.label_many(pairs))
    return respond(LabelResults([LabelResult(r.id, r.status, r.detail) for r in results]))  # type: ignore[arg-type]


@operation("POST", f"{MODEL}/predict-then-learn", "learn", body=schemas.LabelledInstances, answer=Predictions)
async def predict_then_learn(call: Call) -> Response:
    """Predict each instance, then learn its label, in order: the fastest way when the labels are there."""
    live = call.live
    body = await call.json(schemas.LabelledInstances)
    X, ids = _instances(call, body)
    if len(body.labels) != len(body.instances):
        raise invalid("labels", f"{len(body.labels)} labels for {len(body.instances)} instances; give one for each")
    answers = await call.models.call(call.entry, lambda: live.aio.predict_then_learn(X, body.labels, ids))
    return await respond_from(lambda: Predictions([_prediction(answer, body.explain) for answer in answers]))


def check_count(call: Call, field: str, items: list[Any]) -> None:
    """Refuse more than one request may have."""
    most = call.models.settings.max_rows
    if len(items) > most:
        raise Problem("too-large", f"{field}: {len(items)} entries; at most {most} in one request")


def _instances(call: Call, body: schemas.PredictRequest) -> tuple[Encoded, list[str] | None]:
    """The rows and ids of a body, after everything that depends on the model was checked."""
    entry = call.entry
    check_count(call, "instances", body.instances)
    schemas.check_ids(body.ids, len(body.instances))
    if body.explain:
        _check_answer(call, entry.model, len(body.instances))
    return Encoded(rows_of(entry, body.instances), body.instances), body.ids


def rows_of(entry: Entry, instances: list[Any]) -> Any:
    """Instances as rows of numbers that the model or fleet reads."""
    if entry.table is not None:
        return schemas.table_matrix(instances, entry.table)
    return schemas.matrix(instances, entry.features, entry.feature_names, gaps=entry.gaps)


def _check_answer(call: Call, live: LiveModel, rows: int) -> None:
    """Refuse to explain so many rows that the answer, whose size follows from classes and experts, is too large."""
    clf, most = live.clf, call.models.settings.max_answer
    classes = clf.classes_.tolist() if isinstance(clf, OnlineTransferClassifier) else []
    labels = sum(len(str(label)) + NUMBER for label in classes)
    longest = max((len(str(label)) for label in classes), default=0)
    experts = sum(2 * len(name) + longest + NUMBER for name in clf.expert_names_)
    if rows * (labels + experts) > most:
        fit = most // (labels + experts)
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


def summary(entry: Entry, keys: tuple[str, ...], most: int = MANY_NAMES) -> schemas.Model:
    """What a model says about itself, in a thread."""
    if entry.state != "ready" or entry.live is None:
        return schemas.Model(entry.name, False, entry.error or f"the model is {entry.state}")
    stats = entry.live.stats()
    about = bounded({key: stats[key] for key in keys if key in stats}, most)
    return schemas.Model(entry.name, True, notice=entry.notice or UNSET, **about)


@operation("GET", "/v1/models", "read", answer=schemas.ModelList)
async def list_models(call: Call) -> Response:
    """The models that the caller may read."""
    entries = [entry for entry in call.models if entry.kind == "model" and call.caller.may("read", entry.name)]
    return await respond_from(lambda: schemas.ModelList([summary(entry, SHORT, FEW_NAMES) for entry in entries]))


@operation("GET", MODEL, "read", answer=schemas.Model)
async def get_model(call: Call) -> Response:
    """What a model is, and how it is."""
    entry = call.entry
    tag = {} if entry.live is None else {"ETag": await asyncio.to_thread(etag, entry.live)}
    return await respond_from(lambda: summary(entry, LONG), headers=tag)


def etag(live: LiveModel) -> str:
    """The tag of the model that was put in this place: what it learns does not change it, `replace` does."""
    return f'"{live.stats()["model"]["digest"]}"'


@operation("DELETE", MODEL, "admin", status=204)
async def delete_model(call: Call) -> Response:
    """Close a model and remove its state, its journal and its snapshots, and the file that it began with."""
    await call.models.delete(call.name)
    return Response(status_code=204)


@operation("GET", f"{MODEL}/stats", "read", answer=dict[str, Any])
async def stats(call: Call) -> Response:
    """Counts, weights, discrepancy, balance of classes, calibration, latency, sizes."""
    live = call.live
    return await respond_from(lambda: bounded(live.stats()))


@operation("GET", f"{MODEL}/history", "read", answer=schemas.History)
async def history(call: Call) -> Response:
    """Mistakes, weights and discrepancy over time; of a model with very many experts, every second point or fewer."""
    live, most = call.live, call.models.settings.max_answer
    return await respond_from(lambda: {"points": _thinned(live.history(), most)})


def _thinned(points: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """As many points as have room in so many bytes, evenly spaced, the newest among them."""
    if not points:
        return points
    size = NUMBER * sum(len(value) if isinstance(value, list) else 1 for value in points[-1].values())
    return points[:: -math.ceil(len(points) * size / most)][::-1]


@operation("GET", f"{MODEL}/latest", "read", query=schemas.LatestQuery, answer=schemas.Latest)
async def latest(call: Call) -> Response:
    """The newest events with their labels, if these came."""
    live, query = call.live, query_of(call, schemas.LatestQuery)
    return await respond_from(lambda: {"events": live.latest(query.n)})


@operation("GET", f"{MODEL}/alarms", "read", answer=schemas.Alarms)
async def alarms(call: Call) -> Response:
    """What is wrong now, with the rule and the numbers behind it."""
    live = call.live
    return await respond_from(lambda: {"alarms": live.alarms()})


@operation("POST", f"{MODEL}/snapshot", "admin", answer=dict[str, Any], errors=(429, 504))
async def snapshot(call: Call) -> Response:
    """Write the state to disk now."""
    return respond(await call.models.call(call.entry, call.live.aio.snapshot))


@operation("POST", f"{MODEL}/forget", "admin", body=schemas.ForgetRequest, answer=schemas.Forgotten)
async def forget(call: Call) -> Response:
    """Remove events by their ids: rows, predictions and labels. What was learned from them stays."""
    live = call.live
    body = await call.json(schemas.ForgetRequest)
    check_count(call, "ids", body.ids)
    for i, id in enumerate(body.ids):
        schemas.check_printable(id, f"ids[{i}]")
    ids = await call.models.call(call.entry, lambda: live.aio.look(lambda live: live.forget(*body.ids)))
    return respond(schemas.Forgotten(ids))


# -- files ------------------------------------------------------------------------------------------------------

EXPORTS = {"jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}
PART = 1 << 20  # bytes that are read and sent together


@operation(
    "GET", f"{MODEL}/export", "read", query=schemas.ExportQuery, gives=dict.fromkeys(EXPORTS.values(), BYTES),
    errors=(429,),
)  # fmt: skip
async def export(call: Call) -> Response:
    """The events that the journal still has, with features, predictions and labels."""
    call.live  # noqa: B018
    entry, kind = call.entry, query_of(call, schemas.ExportQuery).format
    path = call.models.work.path / f"export-{uuid4().hex}.{kind}"

    def written() -> BinaryIO:
        try:
            write_export(entry.folder, path)
            return path.open("rb")
        finally:
            path.unlink(missing_ok=True)  # gone when it was sent, or when the caller went

    return Attachment(call, written, f"{call.name}.{kind}", EXPORTS[kind])


@operation("GET", f"{MODEL}/model", "read", gives={BINARY: BYTES}, errors=(429,))
async def download_model(call: Call) -> Response:
    """The newest snapshot as a model file; POST .../snapshot takes a new one."""
    call.live  # noqa: B018
    snapshots = Snapshots(call.entry.folder)
    newest = snapshots.path(snapshots.newest_number)
    return Attachment(call, lambda: newest.open("rb"), f"{call.name}.safetensors", BINARY)


class Downloads:
    """Exports and downloads: so many are made and sent at the same time, in threads of their own."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds, self.active = most, seconds, 0
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="hedgerow-download")

    async def do(self, work: Callable[[], T]) -> T:
        """Work in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """End the threads when they are done."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Attachment(Response):
    """A file for one caller, who is left if the next part is not read in time."""

    def __init__(self, call: Call, opened: Callable[[], BinaryIO], name: str, kind: str) -> None:
        self._entry, self._opened = call.entry, opened
        self._downloads: Downloads = call.app.state.downloads
        self._about = {"content-type": kind, "content-disposition": f'attachment; filename="{name}"'}
        if self._downloads.active >= self._downloads.most:
            raise Problem("busy", f"{self._downloads.active} exports are on their way, as many as allowed")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the file, and send it part by part."""
        downloads = self._downloads
        downloads.active += 1
        try:
            with await downloads.do(self._opened) as stream:
                headers = {**self._about, "content-length": str(stream.seek(0, os.SEEK_END))}
                stream.seek(0)
                raw = [(key.encode(), value.encode()) for key, value in headers.items()]
                await send({"type": "http.response.start", "status": 200, "headers": raw})
                more = True
                while more:
                    part = await downloads.do(lambda: stream.read(PART))
                    more = bool(part)
                    async with asyncio.timeout(downloads.seconds):
                        await send({"type": "http.response.body", "body": part, "more_body": more})
        except TimeoutError:
            raise ClientDisconnect from None
        except HedgerowError as error:
            raise as_problem(error, self._entry) from error
        finally:
            downloads.active -= 1


# -- server-sent events -----------------------------------------------------------------------------------------

EVERY = 0.5  # seconds between two events at least
HEARTBEAT = 10.0  # seconds between comment lines, so that nobody takes silence for an end
LATEST = 20
STREAM = "text/event-stream"


@operation("GET", f"{MODEL}/events", "read", gives={STREAM: {"schema": {"type": "string"}}}, errors=(429,))
async def events(call: Call) -> Response:
    """Server-sent events: `stats` at most twice a second while something changes."""
    call.live  # noqa: B018
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
    data |= {"latest": live.latest(LATEST), "alarms": alarms}
    return now, b"event: stats\ndata: " + encode(data) + b"\n\n"


# -- the service itself -----------------------------------------------------------------------------------------


@operation("GET", "/healthz", answer=schemas.Health)
async def healthz(call: Call) -> Response:
    """Whether the process answers at all."""
    return respond(schemas.Health())


@operation("GET", "/readyz", answer=schemas.Readiness)
async def readyz(call: Call) -> Response:
    """Whether requests can be served: every model is open or known to be unusable, and not all of them are."""
    call.models.check_ready()
    states = [entry.state for entry in call.models]
    return respond(schemas.Readiness(True, {state: states.count(state) for state in ("ready", "failed")}))


@operation("GET", "/metrics", "read", gives={"text/plain": {"schema": {"type": "string"}}})
async def metrics(call: Call) -> Response:
    """Requests and latencies, and the numbers of the models that the caller may read, for Prometheus."""
    entries = [entry for entry in call.models if call.caller.may("read", entry.name)]
    text = await asyncio.to_thread(exposition, call.app.state.requests, entries)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@operation("GET", "/problems/{kind}", answer=schemas.ProblemKind)
async def problem_kind(call: Call) -> Response:
    """What a type of problem means."""
    name = call.path_params["kind"]
    if name not in KINDS:
        raise Problem("not-found", "there is no such type of problem")
    kind = KINDS[name]
    return respond(schemas.ProblemKind(f"/problems/{name}", kind.title, kind.status, kind.meaning))


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

    def page(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await files.get_response(name, request.scope)

        return answer

    return [
        Route("/", page("index.html")),
        Route("/models/{name}", page("model.html")),
        Mount("/static", files),
    ]
