"""A client of the service: typed, with retries that cannot count anything twice.

    from hedgerow.client import Client

    with Client("http://127.0.0.1:8080") as client:
        model = client.model("site")
        prediction = model.predict({"width": 2.0, "height": 1.5})
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
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    overload,
)
from uuid import uuid4

import numpy as np

from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.core.values import Forgotten, Ids, LabelResult, Row, Rows, is_row

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "live")

__all__ = [
    "AsyncClient", "Client", "Fleet", "LabelResult", "Model", "Prediction", "ServiceError",
]  # fmt: skip

AGAIN = (429, 502, 503, 504)  # answers after which the same request may succeed
LONGEST_WAIT = 30.0  # seconds between two tries
BINARY = {"Content-Type": "application/octet-stream"}
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
NAME_RULE = (
    "a name has up to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit"
)

Key = str | int
Keys = list[str] | list[int] | list[str | int]
P = ParamSpec("P")
T = TypeVar("T")
One = TypeVar("One", covariant=True)
Many = TypeVar("Many", covariant=True)
C = TypeVar("C", bound="_Verbs")
Steps = Coroutine[Any, Any, T]


def is_name(name: str) -> bool:
    r"""Whether this can be the name of a model: one folder inside the models folder, and never anywhere else.

    >>> is_name("site-a.2"), is_name(".."), is_name("a/b"), is_name("a\n")
    (True, False, False, False)
    """
    return re.fullmatch(NAME_PATTERN.strip("^$"), name) is not None


class ServiceError(HedgerowError):
    """The service refused a request, or could not be reached (status 0).

    `errors` names the fields: [{"field": "instances[3].width", "detail": "missing"}].
    """

    def __init__(
        self, status: int, title: str, detail: str, errors: Sequence[Mapping[str, str]] = ()
    ) -> None:
        super().__init__(f"{status} {title}: {detail}" if status else f"{title}: {detail}")
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = list(errors)


# The answers, as the service declares them too (`hedgerow.service.schemas`): what is not there is None.

Value = str | int | float | bool | None
Ends = tuple[float | None, float | None]  # of an interval; None: it has no end on this side


def _about(description: str) -> Any:
    return msgspec.Meta(description=description)


class Prediction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer for one instance: label and probability or, of a model of numbers, prediction and interval.

    One that has an `id`, and `repeated`, is an event, which a label can follow. That of a fleet has the `key` of the
    instance.
    """

    id: Annotated[
        str,
        _about("Of the event, by which it can be labelled; of a fleet, if it was asked with ids."),
    ] = ""
    key: Annotated[str | int, _about("Only of a fleet.")] = ""
    label: Value = None
    probability: Annotated[
        float | None, _about("Of the label; not in what a fleet answers to `learn`.")
    ] = None
    probabilities: Annotated[
        dict[str, float | None] | None, _about("By label; only with `explain`.")
    ] = None
    prediction: float | None = None
    interval: Annotated[Ends | None, _about("Of the model's first coverage.")] = None
    intervals: Annotated[dict[str, Ends] | None, _about("By coverage; only with `explain`.")] = None
    votes: Annotated[
        dict[str, Value] | None, _about("What each expert says; only with `explain`.")
    ] = None
    weights: Annotated[
        dict[str, float | None] | None, _about("Of each expert; only with `explain`.")
    ] = None
    repeated: Annotated[
        bool | None, _about("Whether the id was known, so that this is the answer given before.")
    ] = None


class Verb(Generic[P, T]):
    """A request of a client: called, or awaited where the client is an `AsyncClient`."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(
        self, owner: AsyncClient | _Named[AsyncClient], kind: Any = None
    ) -> Callable[P, Awaitable[T]]: ...
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


class RowVerb(Protocol[P, One, Many]):
    """A verb of one row, or of several."""

    @overload
    def __call__(self, X: Row, *args: P.args, **options: P.kwargs) -> One: ...
    @overload
    def __call__(self, X: Rows, *args: P.args, **options: P.kwargs) -> Many: ...
    @overload
    def __call__(self, X: Any, *args: P.args, **options: P.kwargs) -> Any: ...


class KeyVerb(Protocol[P, One, Many]):
    """A verb of one row with its key, or of several."""

    @overload
    def __call__(self, keys: Key, X: Row, *args: P.args, **options: P.kwargs) -> One: ...
    @overload
    def __call__(self, keys: Key | Keys, X: Rows, *args: P.args, **options: P.kwargs) -> Many: ...
    @overload
    def __call__(self, keys: Any, X: Any, *args: P.args, **options: P.kwargs) -> Any: ...


class OfRows(Verb[P, Any]):
    """A `RowVerb` that predicts, awaited or not."""

    if TYPE_CHECKING:

        def __init__(self, steps: Callable[Concatenate[Any, Any, P], Steps[Any]]) -> None: ...
        @overload  # type: ignore[override]
        def __get__(
            self, owner: _Named[AsyncClient], kind: Any = None
        ) -> RowVerb[P, Awaitable[Prediction], Awaitable[list[Prediction]]]: ...
        @overload
        def __get__(
            self, owner: _Named[Client], kind: Any = None
        ) -> RowVerb[P, Prediction, list[Prediction]]: ...
        def __get__(self, owner: Any, kind: Any = None) -> Any: ...


class OfKeys(Verb[P, Any]):
    """A `KeyVerb` that predicts, awaited or not."""

    if TYPE_CHECKING:

        def __init__(self, steps: Callable[Concatenate[Any, Any, Any, P], Steps[Any]]) -> None: ...
        @overload  # type: ignore[override]
        def __get__(
            self, owner: _Named[AsyncClient], kind: Any = None
        ) -> KeyVerb[P, Awaitable[Prediction], Awaitable[list[Prediction]]]: ...
        @overload
        def __get__(
            self, owner: _Named[Client], kind: Any = None
        ) -> KeyVerb[P, Prediction, list[Prediction]]: ...
        def __get__(self, owner: Any, kind: Any = None) -> Any: ...


class _Verbs:
    """What both clients have."""

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        tries: int = 6,
        verify: Any = True,
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

    async def _ask(
        self, method: str, path: str, field: str = "", kind: Any = Any, body: Any = None, **arguments: Any
    ) -> Any:  # fmt: skip
        """What the service answers to a body of JSON, or a field of it, as a type."""
        if body is not None:
            arguments |= {"content": _encode(body), "headers": {"Content-Type": "application/json"}}
        answer = await self._exchange(method, path, **arguments)
        if kind is bytes or answer.status_code == 204:
            return answer.content or None
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
                    raise ServiceError(
                        0, "no answer", f"{type(error).__name__}: {error}"
                    ) from error
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
    _forgets = "ids"

    def __init__(self, client: C, name: str) -> None:
        if not is_name(name):  # in an address it would name something else
            raise InputError(f"{name!r}: {NAME_RULE}")
        self.client = client
        self.name = name

    def _ask(self, method: str, what: str = "", *about: Any, **arguments: Any) -> Steps[Any]:
        return self.client._ask(method, f"/v1/{self._kind}/{self.name}{what}", *about, **arguments)

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
        return self._ask("DELETE", params={"confirm": self.name})

    @Verb
    async def forget(self, *what: Any) -> Forgotten:
        """Remove events (by their ids) or keys at once; those that were there. See `Forgotten.pending`."""
        answer = await self._ask("POST", "/forget", body={self._forgets: what})
        forgotten = Forgotten(answer["forgotten"])
        forgotten.pending = answer["pending"]
        return forgotten


class Model(_Named[C]):
    """One model of a service, as `Client.model` returns it; its verbs are awaited where the client is async."""

    @OfRows
    async def predict(self, X: Any, ids: str | Ids | None = None, *, explain: bool = False) -> Any:
        """The prediction for one row, or for each of several; each is an event that can be labelled by its id.

        Parameters
        ----------
        X : a mapping or sequence of numbers, or several of them
            By name, or in the model's order of features; arrays are rows too.
        ids : str or list of str, optional
            One for each row; made here if there are none. The same id with the same row gives the stored answer.
        explain : bool
            Also `probabilities`, and the experts' `votes` and `weights`. Costs a prediction a row; the service refuses
            batches whose answer would be too large.

        Returns
        -------
        Prediction, or list of Prediction
        """
        body = {**_rows(X), "explain": explain}
        body["ids"] = _ids(ids, body)
        return _said(X, await self._ask("POST", "/predict", "predictions", list[Prediction], body))

    @Verb
    async def label(self, id: str, y: Any) -> LabelResult:
        """The label of one event. The same label twice is learned once."""
        [result] = await Model.label_many(self, [(id, y)])
        return result

    @Verb
    def label_many(self, labels: Sequence[tuple[str, Any]]) -> Steps[list[LabelResult]]:
        """Labels of several events."""
        body = {"labels": [{"id": id, "label": y} for id, y in labels]}
        return self._ask("POST", "/label", "results", list[LabelResult], body)

    @OfRows
    async def predict_then_learn(
        self, X: Any, y: Any, ids: str | Ids | None = None, *, explain: bool = False
    ) -> Any:
        """Rows with their labels, or one with its own, each predicted before it is learned (test-then-train).

        The fastest way where labels are known at once: one request and one transaction for all of them. Parameters as
        for `predict`; `y` has a label for each row.
        """
        body = {**_rows(X, y), "explain": explain}
        body["ids"] = _ids(ids, body)
        return _said(
            X,
            await self._ask("POST", "/predict-then-learn", "predictions", list[Prediction], body),
        )

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
    """One fleet of a service, as `Client.fleet` returns it; its verbs are awaited where the client is async.

    A key in the place of a list is the key of one row, or of all.
    """

    _kind = "fleets"
    _forgets = "keys"

    @OfKeys
    async def predict(
        self, keys: Any, X: Any, ids: str | Ids | None = None, *, explain: bool = False
    ) -> Any:
        """The prediction for one row, or for each of several, each by what its key has learned.

        With `ids` each is an event of its key, which can be labelled by its id. The same id of a key with the same row
        gives the stored answer; other keys may have the same ids.
        """
        body = {**_keyed(keys, X), "explain": explain}
        if ids is not None:
            body["ids"] = _ids(ids, body)
        return _said(X, await self._ask("POST", "/predict", "predictions", list[Prediction], body))

    @Verb
    async def label(self, key: Key, id: str, y: Any) -> LabelResult:
        """The label of one event of a key. The same label twice is learned once."""
        [result] = await Fleet.label_many(self, [(key, id, y)])
        return result

    @Verb
    def label_many(self, labels: Sequence[tuple[Key, str, Any]]) -> Steps[list[LabelResult]]:
        """Labels of several events: a key, an id and a label each."""
        listed = [{"key": key, "id": id, "label": y} for key, id, y in labels]
        return self._ask("POST", "/label", "results", list[LabelResult], {"labels": listed})

    @OfKeys
    async def predict_then_learn(self, keys: Any, X: Any, y: Any, *, id: str | None = None) -> Any:
        """The prediction made for each row before its label was learned; None if the batch `id` was learned before.

        `id` names the batch; one is made if there is none, so that a batch whose answer was lost is learned once.
        """
        return await self._learn(keys, X, y, id)

    @Verb
    async def learn(self, keys: Any, X: Any, y: Any, *, id: str | None = None) -> None:
        """Labelled rows, each for its key, as `predict_then_learn` learns them."""
        await self._learn(keys, X, y, id)

    async def _learn(self, keys: Any, X: Any, y: Any, id: str | None) -> Any:
        body = {**_keyed(keys, X, y), "id": id or uuid4().hex}
        answer = await self._ask("POST", "/learn", body=body)
        said = msgspec.convert(answer["predictions"], list[Prediction])
        return None if answer["duplicate"] else _said(X, said)


def _rows(X: Any, y: Any = None) -> dict[str, Any]:
    """Rows, perhaps with labels."""
    one = is_row(X)
    labels = {} if y is None else {"labels": [y] if one else y}
    return {"instances": [X] if one else X, **labels}


def _keyed(keys: Any, X: Any, y: Any = None) -> dict[str, Any]:
    """The same with keys: one in the place of many is that of all."""
    body = _rows(X, y)
    return {"keys": [keys] * len(body["instances"]) if np.ndim(keys) == 0 else keys, **body}


def _ids(ids: str | Ids | None, body: dict[str, Any]) -> list[str]:
    """The ids given, or new ones: made here, so that every try of a request has the same."""
    if ids is None:
        return [uuid4().hex for _ in body["instances"]]
    return [ids] if isinstance(ids, str) else list(ids)


def _said(X: Any, predictions: list[Prediction]) -> Any:
    return predictions[0] if is_row(X) else predictions


def _jsonable(value: Any) -> Any:
    """What is none of JSON's own: of NumPy, a mapping, or a sequence."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else list(value)


_encode = msgspec.json.Encoder(enc_hook=_jsonable).encode


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
    return ServiceError(
        answer.status_code, title, str(problem.get("detail", "")), problem.get("errors") or ()
    )
