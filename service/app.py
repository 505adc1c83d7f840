"""The web application: routes, guard and problem documents put together, and the server that runs it."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from models.errors import InvalidSettingError
from models.settings import Settings
from service import __version__, api, problems
from service.guard import LOOPBACK, Guard
from service.owner import Address, owned, published
from service.runtime import Runtime

_STOP_WITHIN_SECONDS = 5
_STARTING_WAIT = 5.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised here, never a default


def create_app(runtime: Runtime, token: str | None = None) -> FastAPI:
    """The application over *runtime*; the token is asked for when it is given."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        runtime.start()
        yield
        runtime.stop()

    app: FastAPI = FastAPIOffline(
        title="Coldspark", version=__version__, lifespan=lifespan, redoc_url=None,
        description="Recall by meaning over the sparks of both Markdown tiers.",
    )  # fmt: skip
    app.state.runtime = runtime
    app.include_router(api.router)
    problems.register(app)
    app.add_middleware(Guard, hosts=_names_of(runtime.settings.host), token=token)
    return app


def _names_of(host: str) -> frozenset[str] | None:
    """What a request's Host may say: loopback and the address itself; anything when all addresses are listened on."""
    return None if host in _EVERYWHERE else LOOPBACK | {host}


def serve(settings: Settings) -> None:
    """Runs the service until it is told to end.

    Raises BusyError when another process owns the index, InvalidSettingError when the address cannot be used.
    """
    import uvicorn

    token = _required_token(settings)
    with owned(settings.state_dir, _STARTING_WAIT), _listening(settings) as listener:
        address = Address(_url(listener), token or secrets.token_urlsafe(24), os.getpid(), __version__)
        with published(settings.state_dir, address):
            logging.getLogger("coldspark").info("serving at %s (documentation at %s/docs)", address.url, address.url)
            app = create_app(Runtime(settings), token)
            config = uvicorn.Config(
                app, log_level="warning", access_log=False, timeout_graceful_shutdown=_STOP_WITHIN_SECONDS, server_header=False
            )
            uvicorn.Server(config).run(sockets=[listener])


def _url(listener: socket.socket) -> str:
    """Where this machine reaches the service."""
    host, port = listener.getsockname()[:2]
    host = _EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _required_token(settings: Settings) -> str | None:
    """The token that callers must show: any, where the address is not loopback."""
    if settings.host == "localhost" or _is_loopback(settings.host):
        return settings.token
    if not settings.token:
        raise InvalidSettingError("host", settings.host, "an address other than loopback needs a token; set COLDSPARK_TOKEN")
    return settings.token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(settings: Settings) -> socket.socket:
    try:
        return socket.create_server(
            (settings.host, settings.port), family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET, backlog=128
        )
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise InvalidSettingError("port", where, f"{error.strerror or error}; name another with --port") from error
