"""Bodies of requests: read with a limit and a time-out, parsed once, and checked by hand where speed counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from hedgerow.service.problems import Problem, invalid

Body = dict[str, Any]


async def read_json(request: Request, limit: int, seconds: float) -> Body:
    """The JSON object of a body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem("media-type", f"Content-Type is {kind or 'missing'}; send application/json")
    return parsed(await read_bytes(request, limit, seconds))


def parsed(data: bytes) -> Body:
    """Bytes as a JSON object."""
    try:
        found = from_json(data, allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        raise Problem("malformed", f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem("invalid", f"the body must be an object, not {kind_of(found)}")
    return found


async def read_bytes(request: Request, limit: int, seconds: float) -> bytes:
    """All of a body."""
    parts = [part async for part in chunks(request, limit, seconds)]
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def chunks(request: Request, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """A body as it arrives, refused as soon as it is too large, whatever its header says, or too slow."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    received = 0
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                received += len(part)
                if received > limit:
                    raise _too_large(limit)
                if part:
                    yield part
    except TimeoutError:
        raise Problem(
            "slow", f"the body was not complete after {seconds:g} s", headers={"Connection": "close"}
        ) from None


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"the body has more than {limit} bytes", headers={"Connection": "close"})


def check_keys(body: Body, known: frozenset[str], needed: tuple[str, ...], where: str = "") -> None:
    """Refuse a key that means nothing, and the lack of one that is needed."""
    for key in body:
        if key not in known:
            raise invalid(f"{where}{key}"[:200], f"unknown field; there are {', '.join(sorted(known))}")
    for key in needed:
        if key not in body:
            raise invalid(f"{where}{key}", "missing")


def a_list(body: Body, key: str, rows: int) -> list[Any]:
    """A list of 1 to `rows` entries."""
    found = body[key]
    if type(found) is not list:
        raise invalid(key, f"must be a list, not {kind_of(found)}")
    if not found:
        raise invalid(key, "must have at least one entry")
    if len(found) > rows:
        raise Problem("too-large", f"{key}: {len(found)} entries; at most {rows} in one request")
    return found


def a_flag(body: Body, key: str) -> bool:
    """A boolean that is false if it is not there."""
    found = body.get(key, False)
    if type(found) is not bool:
        raise invalid(key, f"must be true or false, not {kind_of(found)}")
    return found


LONGEST_ID = 200
LONGEST_LABEL = 1000
SHOWN = 40


def an_id(value: Any, field: str) -> str:
    """The id of an event."""
    if type(value) is not str or not 0 < len(value) <= LONGEST_ID or not value.isprintable():
        what = f"{value[:SHOWN]!r}" if isinstance(value, str) else kind_of(value)
        raise invalid(field, f"must be text of 1 to {LONGEST_ID} printable characters, not {what}")
    return value


def the_ids(body: Body, count: int) -> list[str] | None:
    """One id for each instance, if there are any."""
    given = body.get("ids")
    if given is None:
        return None
    if type(given) is not list or len(given) != count:
        size = f"{len(given)} of them" if isinstance(given, list) else kind_of(given)
        raise invalid("ids", f"must be a list with one id for each of the {count} instances, not {size}")
    for i, value in enumerate(given):
        if an_id(value, f"ids[{i}]").startswith("#"):
            raise invalid(f"ids[{i}]", "ids that begin with '#' are the service's own; choose another")
    if len(set(given)) < count:
        twice = next(i for i, value in enumerate(given) if value in given[:i])
        raise invalid(f"ids[{twice}]", "stands there twice; give every instance an id of its own")
    return given


def a_label(value: Any, field: str) -> Any:
    """A label: text, a number or a boolean."""
    kind = type(value)
    if (kind is str and len(value) <= LONGEST_LABEL) or kind in (bool, float) or (kind is int and abs(value) < 2**63):
        return value
    raise invalid(
        field, f"must be text of up to {LONGEST_LABEL} characters, a number or a boolean, not {kind_of(value)}"
    )


def kind_of(value: Any) -> str:
    """JSON's name for what a value is; the value itself may be private.

    >>> kind_of([1]), kind_of(None), kind_of(1.5), kind_of(2)
    ('a list', 'null', 'a number', 'a number')
    """
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool):
        return "a number" if abs(value) < 2**63 else "a number beyond 64 bits"
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a boolean", float: "a number"}
    return kinds.get(type(value), type(value).__name__)
