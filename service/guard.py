"""What every request must pass before a route sees it: Host, Origin, token, media type and size.

Listening on loopback alone does not keep web pages out: a page can reach it by DNS rebinding (hence Host) or by a form
post (hence Origin and the media type).
"""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.problems import problem

LARGEST_BODY = 1024 * 1024
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware; *hosts* may be named in Host (None: any, safe only with a token), *token* must be shown when it is set."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None = LOOPBACK, token: str | None = None) -> None:
        self.app = app
        self.hosts = hosts
        self.token = token

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
        if self.token is not None and not self._shown(headers.get("authorization", "")):
            return 401, "Token required", "Authorization: this address needs `Bearer` and the service's token."
        if method not in _READING and _media_type(headers) != "application/json" and _has_body(headers):
            return 415, "Unsupported media type", "Content-Type: send application/json."
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > LARGEST_BODY:
            return _too_large()
        return None

    def _shown(self, authorization: str) -> bool:
        kind, _, token = authorization.partition(" ")
        return kind.casefold() == "bearer" and hmac.compare_digest(token.strip().encode(), (self.token or "").encode())

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stops a body that grows past the limit without having said so, before a route has it whole."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LARGEST_BODY:
                raise _TooLarge
            return message

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
            await send(message)

        try:
            await self.app(scope, counted, hardened)
        except _TooLarge:
            status, title, detail = _too_large()
            await problem(status, title, detail)(scope, receive, send)


class _TooLarge(Exception):  # noqa: N818 - a signal between two functions here
    """The body is over the limit."""


def hostname(host: str) -> str:
    """The name in a Host header, without its port; empty when it cannot be read."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().casefold()


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers or "content-type" in headers


def _too_large() -> tuple[int, str, str]:
    return 413, "Body too large", f"Body: at most {LARGEST_BODY} bytes are taken."
