"""Failures as HTTP answers: application/problem+json (RFC 9457), from one place."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from models.errors import ColdsparkError, InvalidRequestError

log = logging.getLogger("coldspark")

_UNREADABLE = "There was an error parsing the body"  # FastAPI's words for whatever went wrong in there
MEDIA_TYPE = "application/problem+json"


def problem(status: int, title: str, detail: str, **more: Any) -> JSONResponse:
    """One problem document."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, media_type=MEDIA_TYPE)


async def _own(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ColdsparkError)  # noqa: S101 - the handler's registration says so
    named = {"errors": [{"field": error.field, "problem": error.problem}]} if isinstance(error, InvalidRequestError) else {}
    return problem(error.status, error.title, str(error), exit_code=error.exit_code, **named)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - the handler's registration says so
    fields = [_read_problem(dict(e)) for e in error.errors()]
    first = fields[0]
    return problem(422, "Invalid request", f"{first['field']}: {first['problem']}", errors=fields, exit_code=2)


def _read_problem(error: dict[str, Any]) -> dict[str, str]:
    """Field and problem of one of pydantic's errors; JSON that cannot be read concerns the body, not a byte of it."""
    field = "body" if error["type"] == "json_invalid" else field_name(error["loc"])
    return {"field": field, "problem": str(error["msg"]).removeprefix("Value error, ")}


async def _unforeseen(_request: Request, error: Exception) -> JSONResponse:
    log.error("unforeseen failure", exc_info=error)
    return problem(500, "Unforeseen failure", "Something failed that should not; the service's log says what.", exit_code=1)


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - the handler's registration says so
    if error.status_code == 400 and error.detail == _UNREADABLE:
        return problem(422, "Invalid request", "body: it is no JSON that can be read", errors=[{"field": "body", "problem": "unreadable"}])
    answer = problem(error.status_code, "Request failed", str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


def field_name(location: tuple[int | str, ...]) -> str:
    """`filters.tier` rather than pydantic's ("body", "filters", "tier", 0)."""
    parts = [str(p) for p in location]
    if len(parts) > 1 and parts[0] in ("body", "query", "path", "header"):
        parts = parts[1:]
    return ".".join(parts) or "body"


def register(app: FastAPI) -> None:
    """Has *app* answer every failure with a problem document."""
    app.add_exception_handler(ColdsparkError, _own)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)
