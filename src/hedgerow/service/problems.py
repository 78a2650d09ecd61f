"""Errors as RFC 9457 problem documents: what is wrong, in which field, and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import HTTPException
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
SHOWN = 20  # errors of one request that are listed


class Kind(NamedTuple):
    """A kind of problem; its name is the last part of its type."""

    status: int
    title: str
    meaning: str


KINDS = {
    "malformed": Kind(400, "The body cannot be read", "It is not JSON, or not what its content type says."),
    "unauthorised": Kind(401, "A token is needed", "Send `Authorization: Bearer TOKEN` with a token of the service."),
    "forbidden": Kind(403, "The token does not allow this", "It lacks the right that the call needs for this model."),
    "cross-origin": Kind(403, "Calls from other sites are refused", "A browser sent this on behalf of another site."),
    "not-found": Kind(404, "There is nothing at this address", "See /openapi.json for the addresses there are."),
    "no-model": Kind(404, "There is no such model", "GET /v1/models lists those there are."),
    "no-job": Kind(404, "There is no such job", "Jobs are forgotten when the service ends."),
    "method-not-allowed": Kind(405, "The method cannot be used here", "The header Allow lists those that can."),
    "slow": Kind(408, "The body did not arrive in time", "Nothing was done with the part that did."),
    "taken": Kind(409, "The name is taken", "Delete the model of this name first, or choose another name."),
    "finished": Kind(409, "The job has ended", "Only a job that waits or runs can be cancelled."),
    "too-large": Kind(413, "The request is too large", "Send less at once, or let the operator raise the limit."),
    "media-type": Kind(415, "The content type cannot be read", "The header Content-Type must say what is sent."),
    "misdirected": Kind(421, "This host is not served", "The header Host must name the address that is served."),
    "invalid": Kind(422, "The request cannot be used", "`errors` names the fields; nothing was changed."),
    "busy": Kind(429, "Too many requests are waiting", "Nothing was done; try again after Retry-After seconds."),
    "internal": Kind(500, "Something went wrong inside", "The log has more under the id in `instance`."),
    "not-ready": Kind(503, "Not ready", "The service starts or ends, or the model is not open; try again later."),
    "unusable": Kind(503, "The model cannot be used", "It could not be opened; `detail` says why."),
    "storage": Kind(503, "The journal cannot be written", "Nothing was acknowledged; the last good state is kept."),
    "timed-out": Kind(
        504, "The model did not answer in time",
        "The events may have been committed. The same request with the same ids is safe: it finds their answers, and "
        "no label is learned twice.",
    ),
}  # fmt: skip
WAIT = {"busy": "1", "not-ready": "2", "unusable": "30", "storage": "10"}  # Retry-After, in seconds


class FieldError(NamedTuple):
    """What is wrong with one field of a request."""

    field: str
    detail: str


class Problem(HTTPException):
    """A request that is answered with a problem document."""

    def __init__(
        self, kind: str, detail: str, errors: Sequence[FieldError] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        wait = {"Retry-After": WAIT[kind]} if kind in WAIT else {}
        super().__init__(KINDS[kind].status, detail, headers={**wait, **(headers or {})})
        self.kind = kind
        self.text = detail
        self.errors = errors


def invalid(field: str, detail: str) -> Problem:
    """One field that cannot be used."""
    return Problem("invalid", f"{field}: {detail}", [FieldError(field, detail)])


def document(problem: Problem, instance: str) -> Response:
    """The problem as an answer; `instance` is the path of the call and the id under which the log has it."""
    body: dict[str, Any] = {
        "type": f"/problems/{problem.kind}",
        "title": KINDS[problem.kind].title,
        "status": problem.status_code,
        "detail": problem.text,
        "instance": instance,
    }
    if problem.errors:
        body["errors"] = [error._asdict() for error in problem.errors[:SHOWN]]
    return Response(json.dumps(body), problem.status_code, problem.headers, MEDIA_TYPE)
