"""Is it alive, is it ready, what does it count, and what does a problem mean."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from hedgerow.service import schemas
from hedgerow.service.documents import problems
from hedgerow.service.json_text import as_json
from hedgerow.service.metrics import Requests, exposition
from hedgerow.service.models import Models
from hedgerow.service.problems import KINDS, Problem


def router(models: Models, requests: Requests) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["service"])

    @routes.get("/healthz", response_model=schemas.Health)
    async def alive() -> Response:
        """Whether the process answers at all."""
        return as_json({"status": "alive"})

    @routes.get("/readyz", response_model=schemas.Readiness)
    async def ready() -> Response:
        """Whether every model is open and warm, or known to be unusable."""
        if not models.opened:
            raise Problem("not-ready", "models are being opened")
        states = [entry.state for entry in models]
        return as_json({"ready": True, "models": {state: states.count(state) for state in ("ready", "failed")}})

    @routes.get(
        "/metrics", response_model=None,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "For Prometheus"}},
    )  # fmt: skip
    async def metrics(request: Request) -> Response:
        """Requests and latencies, and the numbers of the models that the caller may read."""
        caller = request.scope["hedgerow.caller"]
        if not caller.may_any("read"):
            raise Problem("forbidden", "this needs the right 'read' for a model")
        seen = [entry for entry in models if caller.may("read", entry.name)]
        return Response(await asyncio.to_thread(exposition, requests, seen), media_type=CONTENT_TYPE_LATEST)

    @routes.get("/problems/{kind}", response_model=schemas.ProblemKind, responses=problems(404))
    async def problem(kind: str) -> Response:
        """What a type of problem means."""
        if kind not in KINDS:
            raise Problem("not-found", "there is no such type of problem")
        found = KINDS[kind]
        told = {"type": f"/problems/{kind}", "title": found.title, "status": found.status, "meaning": found.meaning}
        return as_json(told)

    return routes
