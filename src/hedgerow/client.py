"""A client of the service: typed, with retries that cannot count anything twice.

    from hedgerow.client import Client

    with Client("http://127.0.0.1:8080") as client:
        model = client.model("site")
        [prediction] = model.predict([{"width": 2.0, "height": 1.5}])
        model.label(prediction.id, "mug")

Every event gets an id before it is sent, so a request that is repeated after a broken connection finds the answer that
was stored the first time, and a label that was learned is not learned again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

from hedgerow.core.errors import HedgerowError, require

__all__ = ["Client", "LabelResult", "Model", "Prediction", "ServiceError"]

AGAIN = (429, 502, 503, 504)  # answers after which the same request may succeed
LONGEST_WAIT = 30.0  # seconds between two tries

Instance = Mapping[str, Any] | Sequence[float]


class ServiceError(HedgerowError):
    """The service refused a request, or could not be reached (status 0).

    `errors` names the fields: [{"field": "instances[3].width", "detail": "missing"}].
    """

    def __init__(self, status: int, title: str, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(f"{status} {title}: {detail}" if status else f"{title}: {detail}")
        self.status, self.title, self.detail, self.errors = status, title, detail, list(errors)


@dataclass(frozen=True)
class Prediction:
    """The answer for one instance; the last three only with `explain`."""

    id: str
    label: Any
    probability: float
    repeated: bool
    probabilities: dict[str, float] | None = None
    votes: dict[str, Any] | None = None
    weights: dict[str, float] | None = None


@dataclass(frozen=True)
class LabelResult:
    """What became of a label: learned, already, unknown, conflict, given up or refused; `text` says why."""

    id: str
    status: str
    text: str


class Client:
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

    def __init__(self, base_url: str, token: str | None = None, *, timeout: float = 30.0, tries: int = 6) -> None:
        self._httpx: Any = require("httpx", "live")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = self._httpx.Client(base_url=base_url, headers=headers, timeout=timeout)
        self._tries = max(1, tries)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def models(self) -> list[dict[str, Any]]:
        """The models that the token may read."""
        models: list[dict[str, Any]] = self.call("GET", "/v1/models").json()["models"]
        return models

    def model(self, name: str) -> Model:
        """One model; nothing is asked yet."""
        return Model(self, name)

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until the service has opened all its models."""
        end = time.monotonic() + seconds
        while True:
            try:
                if self._http.get("/readyz").is_success:
                    return
            except self._httpx.TransportError:
                pass  # it does not listen yet
            if time.monotonic() > end:
                raise ServiceError(0, "not ready", f"no models after {seconds:g} s")
            time.sleep(0.1)

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """One request, again if that can help and cannot harm: the answer, or a `ServiceError`.

        A DELETE whose answer was lost may find nothing left to delete, which is what it was for. An upload that is
        refused since there are as many models as allowed (429) is not repeated: waiting does not help.
        """
        lost = False
        for attempt in range(1, self._tries + 1):
            wait = min(LONGEST_WAIT, 0.1 * 2**attempt) * random.uniform(0.5, 1.0)
            try:
                answer = self._http.request(method, path, **arguments)
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
            time.sleep(wait)
        raise AssertionError("every try returns, raises or waits")


@dataclass(frozen=True)
class Model:
    """One model of a service, as `Client.model` returns it; every method is one request.

    Parameters
    ----------
    client : Client
        Through which it is asked.
    name : str
        The model's name at the service; whether it is there is known when it is first asked.
    """

    client: Client
    name: str

    def predict(
        self, instances: Sequence[Instance], ids: Sequence[str] | None = None, *, explain: bool = False
    ) -> list[Prediction]:
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
        return [Prediction(**one) for one in self._post("predict", body)["predictions"]]

    def label(self, id: str, label: Any) -> LabelResult:
        """The label of one event. The same label twice is learned once."""
        return self.label_many([(id, label)])[0]

    def label_many(self, labels: Sequence[tuple[str, Any]]) -> list[LabelResult]:
        """Labels of several events."""
        body = {"labels": [{"id": id, "label": _scalar(label)} for id, label in labels]}
        return [LabelResult(**one) for one in self._post("label", body)["results"]]

    def predict_then_learn(
        self,
        instances: Sequence[Instance],
        labels: Sequence[Any],
        ids: Sequence[str] | None = None,
        *,
        explain: bool = False,
    ) -> list[Prediction]:
        """Instances with their labels, each predicted before it is learned (test-then-train).

        The fastest way where labels are known at once: one request and one transaction for all of them. Parameters as
        for `predict`; `labels` has one for each instance.
        """
        body = {
            "instances": _plain(instances), "labels": [_scalar(label) for label in labels],
            "ids": _ids(ids, len(instances)), "explain": explain,
        }  # fmt: skip
        return [Prediction(**one) for one in self._post("predict-then-learn", body)["predictions"]]

    def about(self) -> dict[str, Any]:
        """What the model is."""
        return self._get("")

    def stats(self) -> dict[str, Any]:
        """How it goes."""
        return self._get("/stats")

    def history(self) -> list[dict[str, Any]]:
        """The curves."""
        points: list[dict[str, Any]] = self._get("/history")["points"]
        return points

    def latest(self, n: int = 50) -> list[dict[str, Any]]:
        """The newest events."""
        events: list[dict[str, Any]] = self._get("/latest", params={"n": n})["events"]
        return events

    def alarms(self) -> list[dict[str, Any]]:
        """What is wrong now."""
        alarms: list[dict[str, Any]] = self._get("/alarms")["alarms"]
        return alarms

    def snapshot(self) -> dict[str, Any]:
        """Write the state to disk now."""
        return self._post("snapshot", None)

    def download(self) -> bytes:
        """The newest snapshot as the content of a model file; `snapshot` takes a new one."""
        data: bytes = self.client.call("GET", f"/v1/models/{self.name}/model").content
        return data

    def upload(self, data: bytes) -> dict[str, Any]:
        """Create the model from the content of a model file; refused if the name is taken."""
        headers = {"Content-Type": "application/octet-stream"}
        answer = self.client.call("PUT", f"/v1/models/{self.name}", content=data, headers=headers)
        return _object(answer)

    def delete(self) -> None:
        """Delete the model and all that it has."""
        self.client.call("DELETE", f"/v1/models/{self.name}")

    def _get(self, what: str, **arguments: Any) -> dict[str, Any]:
        return _object(self.client.call("GET", f"/v1/models/{self.name}{what}", **arguments))

    def _post(self, what: str, body: Any) -> dict[str, Any]:
        return _object(self.client.call("POST", f"/v1/models/{self.name}/{what}", json=body))


def _ids(ids: Sequence[str] | None, count: int) -> list[str]:
    """The ids given, or new ones: made here, so that every try of a request has the same."""
    return [uuid4().hex for _ in range(count)] if ids is None else list(ids)


def _plain(instances: Any) -> list[Any]:
    """Instances as JSON can say them: arrays become lists."""
    rows = instances.tolist() if hasattr(instances, "tolist") else instances
    return [dict(row) if isinstance(row, Mapping) else [_scalar(value) for value in row] for row in rows]


def _scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _object(answer: Any) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    return body


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
