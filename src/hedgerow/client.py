"""A client of the service: typed, with retries that cannot count anything twice.

    from hedgerow.client import Client

    with Client("http://127.0.0.1:8080") as client:
        model = client.model("site")
        [prediction] = model.predict([{"width": 2.0, "height": 1.5}])
        model.label(prediction.id, "mug")

`AsyncClient` has the same verbs, to be awaited. Every event gets an id before it is sent, so a request that is repeated
after a broken connection finds the answer that was stored the first time, and a label that was learned is not learned
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote
from uuid import uuid4

from hedgerow.core.errors import HedgerowError, require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "live")

__all__ = [
    "AsyncClient", "Client", "Fleet", "KeyPrediction", "LabelResult", "Model", "Prediction", "ServiceError",
]  # fmt: skip

AGAIN = (429, 502, 503, 504)  # answers after which the same request may succeed
LONGEST_WAIT = 30.0  # seconds between two tries
BINARY = {"Content-Type": "application/octet-stream"}

Instance = Mapping[str, Any] | Sequence[float]
P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="_Verbs")
Steps = Coroutine[Any, Any, T]


class ServiceError(HedgerowError):
    """The service refused a request, or could not be reached (status 0).

    `errors` names the fields: [{"field": "instances[3].width", "detail": "missing"}].
    """

    def __init__(self, status: int, title: str, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(f"{status} {title}: {detail}" if status else f"{title}: {detail}")
        self.status, self.title, self.detail, self.errors = status, title, detail, list(errors)


# The answers, as the service declares them too (`hedgerow.service.schemas`): what is not there is None.

Value = str | int | float | bool | None
Ends = tuple[float | None, float | None]  # of an interval; None: it has no end on this side


def _about(description: str) -> Any:
    return msgspec.Meta(description=description)


class Prediction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer for one instance: label and probability or, of a model of numbers, prediction and interval.

    In the order of `hedgerow.live.Answer`; `probabilities`, `intervals`, `votes` and `weights` only with `explain`.
    """

    id: str
    label: Value = None
    probability: float | None = None
    probabilities: Annotated[dict[str, float | None] | None, _about("By label; only with `explain`.")] = None
    prediction: float | None = None
    interval: Annotated[Ends | None, _about("Of the model's first coverage.")] = None
    intervals: Annotated[dict[str, Ends] | None, _about("By coverage; only with `explain`.")] = None
    votes: Annotated[dict[str, Value] | None, _about("What each expert says; only with `explain`.")] = None
    weights: Annotated[dict[str, float | None] | None, _about("How much each expert counts; only with `explain`.")] = (
        None
    )
    repeated: Annotated[bool, _about("Whether the id was known, so that this is the answer given before.")]


class LabelResult(msgspec.Struct, frozen=True):
    """What became of a label; `detail` says why."""

    id: str
    status: Literal["learned", "duplicate", "conflict", "expired", "unknown", "refused"]
    detail: str


class KeyPrediction(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer for one instance of a key: label and probability, or prediction and interval of a fleet of numbers."""

    key: str | int
    label: Value = None
    probability: Annotated[float | None, _about("Not in answers of `learn`.")] = None
    probabilities: Annotated[dict[str, float] | None, _about("By label; only with `explain`.")] = None
    prediction: float | None = None
    interval: Annotated[Ends | None, _about("Of the fleet's first coverage. Not in answers of `learn`.")] = None
    intervals: Annotated[dict[str, Ends] | None, _about("By coverage; only with `explain`.")] = None


class Verb(Generic[P, T]):
    """A request of a client: called, or awaited where the client is an `AsyncClient`."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, owner: AsyncClient | _Named[AsyncClient], kind: Any = None) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, owner: Client | _Named[Client], kind: Any = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: None, kind: Any = None) -> Callable[Concatenate[Any, P], Steps[T]]: ...

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self._steps

        @functools.wraps(self._steps)
        def call(*args: P.args, **options: P.kwargs) -> Any:
            return getattr(owner, "client", owner)._do(self._steps(owner, *args, **options))

        return call


class _Verbs:
    """What both clients have."""

    def __init__(
        self, base_url: str, token: str | None = None, *, timeout: float = 30.0, tries: int = 6, verify: Any = True
    ) -> None:
        self._httpx: Any = require("httpx", "live")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connect = self._httpx.AsyncClient if isinstance(self, AsyncClient) else self._httpx.Client
        self._http = connect(base_url=base_url, headers=headers, timeout=timeout, verify=verify)
        self._tries = max(1, tries)

    async def _send(self, method: str, path: str, **arguments: Any) -> Any:
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def model(self, name: str) -> Model[Self]:
        """One model; nothing is asked yet."""
        return Model(self, name)

    def fleet(self, name: str) -> Fleet[Self]:
        """One fleet; nothing is asked yet."""
        return Fleet(self, name)

    @Verb
    def models(self) -> Steps[list[dict[str, Any]]]:
        """The models that the token may read."""
        return self._ask("GET", "/v1/models", "models")

    @Verb
    def fleets(self) -> Steps[list[dict[str, Any]]]:
        """The fleets that the token may read."""
        return self._ask("GET", "/v1/fleets", "fleets")

    @Verb
    async def wait(self, seconds: float = 60.0) -> None:
        """Wait until the service has opened all its models."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(self._httpx.TransportError):
                if (await self._send("GET", "/readyz")).is_success:
                    return
            if time.monotonic() > end:
                raise ServiceError(0, "not ready", f"no models after {seconds:g} s")
            await self._sleep(0.1)

    async def _ask(self, method: str, path: str, field: str = "", kind: Any = Any, **arguments: Any) -> Any:
        """What the service answers, or a field of it, as a type."""
        answer = await self._exchange(method, path, **arguments)
        if kind is bytes or method == "DELETE":
            return answer.content if kind is bytes else None
        return msgspec.convert(answer.json()[field] if field else answer.json(), kind)

    async def _exchange(self, method: str, path: str, **arguments: Any) -> Any:
        """One request, again if that can help and cannot harm: the answer, or a `ServiceError`.

        A DELETE whose answer was lost may find nothing left to delete, which is what it was for. An upload that is
        refused since there are as many models as allowed (429) is not repeated: waiting does not help.
        """
        lost = False
        for attempt in range(1, self._tries + 1):
            wait = min(LONGEST_WAIT, 0.1 * 2**attempt) * random.uniform(0.5, 1.0)
            try:
                answer = await self._send(method, path, **arguments)
            except self._httpx.TransportError as error:
                lost = True
                if attempt == self._tries:
                    raise ServiceError(0, "no answer", f"{type(error).__name__}: {error}") from error
            else:
                if answer.is_success or (lost and method == "DELETE" and answer.status_code == 404):
                    return answer
                hopeless = method == "PUT" and answer.status_code == 429
                if answer.status_code not in AGAIN or hopeless or attempt == self._tries:
                    raise _as_error(answer)
                wait = max(wait, _asked_to_wait(answer))
            await self._sleep(wait)
        raise AssertionError("every try returns, raises or waits")


class Client(_Verbs):
    """A connection to one service, for one thread at a time.

    Use it in programs that predict over HTTP and must not count an event twice: every event has an id before it is
    sent, and a request whose answer was lost is repeated with the same ids. In the process that has the model, use
    `hedgerow.live.LiveModel` itself.

    Parameters
    ----------
    base_url : str
        Where the service listens, e.g. ``"http://127.0.0.1:8080"``.
    token : str, optional
        Sent as ``Authorization: Bearer``; needed where the service has a token file.
    timeout : float
        Seconds for one try.
    tries : int
        How often the same request is sent at most. Between two tries it waits longer and longer, by chance a little
        less, or as long as the service asks.
    verify : ssl.SSLContext or bool
        How the certificate of a service that speaks HTTPS is checked; httpx's own way unless it is given.

    Raises
    ------
    ServiceError
        From every method: the service refused the request, or could not be reached (status 0).

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8080", tries=1)
    >>> client.model("site").name  # nothing is sent yet
    'site'
    >>> client.close()
    """

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _send(self, method: str, path: str, **arguments: Any) -> Any:
        return self._http.request(method, path, **arguments)

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # no event loop runs it

    def _do(self, steps: Steps[T]) -> T:
        """Nothing in it ever waits for an event loop, so its first step is its last."""
        try:
            steps.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError("a verb of a Client awaited something")


class AsyncClient(_Verbs):
    """The same for asyncio: its verbs, and those of its models and fleets, are awaited.

    Examples
    --------
    >>> async def ask() -> str:
    ...     async with AsyncClient("http://127.0.0.1:8080", tries=1) as client:
    ...         return client.model("site").name  # nothing is sent yet
    >>> asyncio.run(ask())
    'site'
    """

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, method: str, path: str, **arguments: Any) -> Any:
        return await self._http.request(method, path, **arguments)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _do(self, steps: Steps[T]) -> Steps[T]:
        return steps


class _Named(Generic[C]):
    """One model or fleet of a service; every verb is one request."""

    _kind = "models"

    def __init__(self, client: C, name: str) -> None:
        self.client, self.name = client, name

    def _ask(self, method: str, what: str = "", field: str = "", kind: Any = Any, **arguments: Any) -> Steps[Any]:
        return self.client._ask(method, f"/v1/{self._kind}/{self.name}{what}", field, kind, **arguments)

    @Verb
    def about(self) -> Steps[dict[str, Any]]:
        """What it is."""
        return self._ask("GET")

    @Verb
    def stats(self) -> Steps[dict[str, Any]]:
        """How it goes."""
        return self._ask("GET", "/stats")

    @Verb
    def upload(self, data: bytes) -> Steps[dict[str, Any]]:
        """Create it from the content of a model file; refused if the name is taken."""
        return self._ask("PUT", content=data, headers=BINARY)

    @Verb
    def delete(self) -> Steps[None]:
        """Delete it and all that it has."""
        return self._ask("DELETE")


class Model(_Named[C]):
    """One model of a service, as `Client.model` returns it; its verbs are awaited where the client is async."""

    @Verb
    def predict(
        self, instances: Sequence[Instance], ids: Sequence[str] | None = None, *, explain: bool = False
    ) -> Steps[list[Prediction]]:
        """Predictions, in the order of the instances; each is an event that can be labelled by its id.

        Parameters
        ----------
        instances : sequence of mappings or of sequences of numbers
            By name, or in the model's order of features; a NumPy matrix is one too.
        ids : sequence of str, optional
            One for each; made here if there are none. The same id with the same features gives the stored answer.
        explain : bool
            Also `probabilities`, and the experts' `votes` and `weights`. Costs a prediction a row; the service refuses
            batches whose answer would be too large.

        Returns
        -------
        list of Prediction
        """
        body = {"instances": _plain(instances), "ids": _ids(ids, len(instances)), "explain": explain}
        return self._ask("POST", "/predict", "predictions", list[Prediction], json=body)

    @Verb
    async def label(self, id: str, label: Any) -> LabelResult:
        """The label of one event. The same label twice is learned once."""
        [result] = await Model.label_many(self, [(id, label)])
        return result

    @Verb
    def label_many(self, labels: Sequence[tuple[str, Any]]) -> Steps[list[LabelResult]]:
        """Labels of several events."""
        body = {"labels": [{"id": id, "label": _scalar(label)} for id, label in labels]}
        return self._ask("POST", "/label", "results", list[LabelResult], json=body)

    @Verb
    def predict_then_learn(
        self, instances: Sequence[Instance], labels: Sequence[Any], ids: Sequence[str] | None = None, *,
        explain: bool = False,
    ) -> Steps[list[Prediction]]:  # fmt: skip
        """Instances with their labels, each predicted before it is learned (test-then-train).

        The fastest way where labels are known at once: one request and one transaction for all of them. Parameters as
        for `predict`; `labels` has one for each instance.
        """
        body = {
            "instances": _plain(instances), "labels": [_scalar(label) for label in labels],
            "ids": _ids(ids, len(instances)), "explain": explain,
        }  # fmt: skip
        return self._ask("POST", "/predict-then-learn", "predictions", list[Prediction], json=body)

    @Verb
    def history(self) -> Steps[list[dict[str, Any]]]:
        """The curves."""
        return self._ask("GET", "/history", "points")

    @Verb
    def latest(self, n: int = 50) -> Steps[list[dict[str, Any]]]:
        """The newest events."""
        return self._ask("GET", "/latest", "events", params={"n": n})

    @Verb
    def alarms(self) -> Steps[list[dict[str, Any]]]:
        """What is wrong now."""
        return self._ask("GET", "/alarms", "alarms")

    @Verb
    def snapshot(self) -> Steps[dict[str, Any]]:
        """Write the state to disk now."""
        return self._ask("POST", "/snapshot")

    @Verb
    def forget(self, ids: Sequence[str]) -> Steps[list[str]]:
        """Remove events at once, with their rows and labels; the ids of those that were there."""
        return self._ask("POST", "/forget", "forgotten", json={"ids": list(ids)})

    @Verb
    def download(self) -> Steps[bytes]:
        """The newest snapshot as the content of a model file; `snapshot` takes a new one."""
        return self._ask("GET", "/model", kind=bytes)

    @Verb
    def replace(self, data: bytes, expected: str | None = None) -> Steps[dict[str, Any]]:
        """Put the content of a model file in the place of the running model; events stay.

        `expected` is the digest of the model that is to be replaced (`stats()["model"]["digest"]`): another one that
        was put there meanwhile is left alone, and status 412 is raised. Without it any model is replaced.
        """
        tag = "*" if expected is None else f'"{expected}"'
        return self._ask("PUT", content=data, headers={**BINARY, "If-Match": tag})


class Fleet(_Named[C]):
    """One fleet of a service, as `Client.fleet` returns it; its verbs are awaited where the client is async."""

    _kind = "fleets"

    @Verb
    def predict(
        self, keys: Sequence[str | int], instances: Sequence[Instance], *, explain: bool = False
    ) -> Steps[list[KeyPrediction]]:
        """Predictions in the order of the instances, each by what its key has learned."""
        body = {"keys": [_scalar(key) for key in keys], "instances": _plain(instances), "explain": explain}
        return self._ask("POST", "/predict", "predictions", list[KeyPrediction], json=body)

    @Verb
    def learn(
        self, keys: Sequence[str | int], instances: Sequence[Instance], labels: Sequence[Any], id: str | None = None
    ) -> Steps[list[KeyPrediction]]:
        """Learn labelled instances, each for its key: what was predicted before; empty if `id` was learned before.

        `id` names the batch; one is made if there is none, so that a batch whose answer was lost is learned once.
        """
        body = {"keys": [_scalar(key) for key in keys], "instances": _plain(instances), "id": id or uuid4().hex}
        body["labels"] = [_scalar(label) for label in labels]
        return self._ask("POST", "/learn", "predictions", list[KeyPrediction], json=body)

    @Verb
    def forget(self, key: str | int) -> Steps[None]:
        """Forget all that a key has learned."""
        whole = {} if isinstance(key, str) else {"whole": "true"}
        return self._ask("DELETE", f"/keys/{quote(str(key), safe='')}", params=whole)


def _ids(ids: Sequence[str] | None, count: int) -> list[str]:
    """The ids given, or new ones: made here, so that every try of a request has the same."""
    return [uuid4().hex for _ in range(count)] if ids is None else list(ids)


def _plain(instances: Any) -> list[Any]:
    """Instances as JSON can say them: arrays become lists."""
    rows = instances.tolist() if hasattr(instances, "tolist") else instances
    return [dict(row) if isinstance(row, Mapping) else [_scalar(value) for value in row] for row in rows]


def _scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _asked_to_wait(answer: Any) -> float:
    asked = answer.headers.get("Retry-After", "")
    return min(LONGEST_WAIT, float(asked)) if asked.isdigit() else 0.0


def _as_error(answer: Any) -> ServiceError:
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    problem = problem if isinstance(problem, dict) else {}
    title = str(problem.get("title") or answer.reason_phrase)
    return ServiceError(answer.status_code, title, str(problem.get("detail", "")), problem.get("errors") or ())
