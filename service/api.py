"""The routes under /v1 and the two health checks."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from models.errors import InvalidRequestError
from models.query import Day, RecallRequest, TextForm
from models.results import CompactReport, CompactResult, EntryResult, IndexResult, ReadyResult, RecallResult, StatusResult
from service import __version__, operations
from service.problems import problem
from service.runtime import Runtime


async def _known_parameters(request: Request) -> None:
    """Refuses query parameters that the route does not know, rather than ignoring them."""
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            raise InvalidRequestError(name, "there is no parameter of this name")


router = APIRouter(dependencies=[Depends(_known_parameters)])


class SyncRequest(BaseModel):
    """`rebuild` makes a new index beside the one in use and switches."""

    model_config = ConfigDict(extra="forbid")

    rebuild: Annotated[bool, Field(strict=True)] = False


class CompactRequest(BaseModel):
    """A dry run unless said otherwise; all pools unless one is named."""

    model_config = ConfigDict(extra="forbid")

    pool: str | None = None
    dry_run: Annotated[bool, Field(strict=True)] = True
    force: Annotated[bool, Field(strict=True)] = False
    today: Day | None = None


async def _runtime(request: Request) -> Runtime:  # not a plain function: those wait for one of the threads
    runtime: Runtime = request.app.state.runtime
    return runtime


Running = Annotated[Runtime, Depends(_runtime)]


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Whether the process is alive."""
    return {"status": "ok", "service": "coldspark", "version": __version__}


@router.get("/readyz", response_model=ReadyResult)
async def readyz(request: Request, runtime: Running) -> ReadyResult | Response:
    """200 once questions are answered in full, 503 with the reason before; `starting` says that it will not be long."""
    found = await to_thread.run_sync(runtime.readiness, limiter=request.app.state.looks)  # never behind the recalls' threads
    return problem(503, "Not ready", found, starting=runtime.is_starting) if isinstance(found, str) else found


@router.post("/v1/recall")
def recall(request: RecallRequest, runtime: Running) -> RecallResult:
    """Entries of both tiers that answer a question, by meaning and by words."""
    return runtime.recall(request)


@router.get("/v1/entries/{entry_id}", response_model=EntryResult)
def entry(
    entry_id: str, runtime: Running, accept: Annotated[str, Header()] = "application/json", pool: str | None = None
) -> EntryResult | Response:
    """One entry: as JSON, or its exact bytes when `text/markdown` is asked for."""
    if "text/markdown" in accept:
        stored = runtime.stored(entry_id, pool)
        return Response(stored.text, media_type="text/markdown; charset=utf-8", headers={"ETag": f'"{stored.view.version}"'})
    return runtime.entry(entry_id, pool)


@router.get("/v1/entries/{entry_id}/related")
def related(entry_id: str, runtime: Running, limit: Annotated[int, Query(ge=1)] = 10, text: TextForm = "full") -> RecallResult:
    """The entries nearest in meaning to one entry."""
    return runtime.related(entry_id, limit, text)


@router.get("/v1/status")
def status(runtime: Running) -> StatusResult:
    """Both tiers beside their limits, and how fresh the index is."""
    return operations.status(runtime.settings)


@router.post("/v1/sync")
def sync(runtime: Running, request: SyncRequest | None = None) -> IndexResult:
    """Brings the index in line with the Markdown."""
    return runtime.sync(rebuild=request.rebuild if request else False)


@router.post("/v1/compact")
def compact(runtime: Running, request: CompactRequest | None = None) -> CompactResult | CompactReport:
    """Moves entries to the archive by verdict; says only what would move unless `dry_run` is false."""
    r = request or CompactRequest()
    return operations.compact(runtime.settings, pool=r.pool, today=r.today, force=r.force, only_plan=r.dry_run)
