"""Failures as HTTP answers: application/problem+json (RFC 9457), from one place."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from models.errors import ColdsparkError

log = logging.getLogger("coldspark")

MEDIA_TYPE = "application/problem+json"


def problem(status: int, title: str, detail: str, **more: Any) -> JSONResponse:
    """One problem document."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, media_type=MEDIA_TYPE)


async def _own(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ColdsparkError)  # noqa: S101 - the handler's registration says so
    return problem(error.status, error.title, str(error), exit_code=error.exit_code)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - the handler's registration says so
    fields = [{"field": field_name(e["loc"]), "problem": e["msg"]} for e in error.errors()]
    first = fields[0]
    return problem(422, "Invalid request", f"{first['field']}: {first['problem']}", errors=fields, exit_code=2)


async def _unforeseen(_request: Request, error: Exception) -> JSONResponse:
    log.error("unforeseen failure", exc_info=error)
    return problem(500, "Unforeseen failure", "Something failed that should not; the service's log says what.", exit_code=1)


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - the handler's registration says so
    answer = problem(error.status_code, "Request failed", str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


def field_name(location: tuple[int | str, ...]) -> str:
    """`filters.tier` rather than pydantic's ("body", "filters", "tier", 0)."""
    parts = [str(p) for p in location if p not in ("body", "query", "path")]
    return ".".join(parts) or str(location[0] if location else "body")


def register(app: FastAPI) -> None:
    """Has *app* answer every failure with a problem document."""
    app.add_exception_handler(ColdsparkError, _own)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)
