"""What every request must pass before a route sees it: Host, Origin, token, media type and size.

Listening on loopback alone does not keep web pages out: a page can reach it by DNS rebinding (hence Host) or by a form
post (hence Origin and the media type).
"""

from __future__ import annotations

import hmac
import re

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.problems import problem

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
LARGEST_BODY = 1024 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware; *hosts* may be named in Host (None: any, safe only with a token that is required).

    A token that is shown must fit even where none is required: a command may have found the address of another service.
    """

    def __init__(self, app: ASGIApp, *, token: str, required: bool = False, hosts: frozenset[str] | None = LOOPBACK) -> None:
        self.app = app
        self.token = token
        self.required = required
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers with a problem."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            status, title, detail = refusal
            await problem(status, title, detail)(scope, receive, send)
            return
        await self._limited(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        known = self.hosts is None or hostname(host) in self.hosts
        if len(headers.getlist("host")) != 1 or not known:
            return 403, "Host refused", "Host: this service answers only under its own address."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].casefold() != host.casefold():
            return 403, "Origin refused", "Origin: requests from other web pages are refused."
        shown = headers.get("authorization")
        if (self.required and shown is None) or (shown is not None and not self._fits(shown)):
            return 401, "Token required", "Authorization: show `Bearer` and the token of this very service."
        if method not in _READING and _media_type(headers) != "application/json" and _has_body(headers):
            return 415, "Unsupported media type", "Content-Type: send application/json."
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > LARGEST_BODY:
            return _too_large()
        return None

    def _fits(self, authorization: str) -> bool:
        kind, _, token = authorization.partition(" ")
        return kind.casefold() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token.encode())

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stops a body that grows past the limit without having said so, before a route has it whole."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LARGEST_BODY:
                raise HTTPException(413, _too_large()[2])
            return message

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
            await send(message)

        await self.app(scope, counted, hardened)


def hostname(host: str) -> str:
    """The name in a Host header, without its port; empty when it is none."""
    m = _HOST.fullmatch(host)
    return (m[1] or m[2]).casefold().rstrip(".") if m else ""


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().casefold()


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers or "content-type" in headers


def _too_large() -> tuple[int, str, str]:
    return 413, "Body too large", f"Body: at most {LARGEST_BODY} bytes are taken."
