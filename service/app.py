"""The web application: routes, guard and problem documents put together, and the server that runs it."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from models.errors import InvalidSettingError
from models.settings import Settings
from service import __version__, api, problems
from service.guard import LOOPBACK, Guard
from service.owner import Address, owned, published
from service.runtime import Runtime

log = logging.getLogger("coldspark")

_STOP_WITHIN_SECONDS = 5
_STARTING_WAIT = 5.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised here, never a default


def create_app(runtime: Runtime, token: str, *, required: bool = False) -> FastAPI:
    """The application over *runtime*; the token must fit where it is shown, and be shown where it is *required*."""

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
    app.add_middleware(Guard, token=token, required=required, hosts=_names_of(runtime.settings.host))
    return app


def _names_of(host: str) -> frozenset[str] | None:
    """What a request's Host may say: loopback and the address itself; anything when all addresses are listened on."""
    return None if host in _EVERYWHERE else LOOPBACK | {host}


def serve(settings: Settings) -> None:
    """Runs the service until it is told to end.

    Raises BusyError when another process owns the index, InvalidSettingError when the address cannot be used.
    """
    required = _needs_token(settings)
    token = settings.token or secrets.token_urlsafe(24)
    with owned(settings.state_dir, _STARTING_WAIT), _listening(settings) as listener:
        folders = tuple(str(p.memory_dir) for p in settings.all_pools())
        address = Address(_url(listener), token, os.getpid(), __version__, folders)
        runtime = Runtime(settings)
        with published(settings.state_dir, address):
            log.info("serving at %s (documentation at %s/docs)", address.url, address.url)
            app = create_app(runtime, token, required=required)
            config = uvicorn.Config(
                app, log_level="warning", access_log=False, timeout_graceful_shutdown=_STOP_WITHIN_SECONDS, server_header=False
            )
            _run(uvicorn.Server(config), listener)
        if runtime.is_working:
            # A thread inside a native library cannot be ended, and would abort the interpreter's own way out. What it may
            # be writing is safe against that: the next sync finishes it.
            logging.shutdown()
            os._exit(0)


def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    """Runs until SIGTERM or SIGINT, and then returns: uvicorn by itself would end the process before the address is withdrawn."""

    def stop(_sign: int, _frame: object) -> None:
        server.should_exit = True

    handlers = {sign: signal.signal(sign, stop) for sign in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listener])
    finally:
        for sign, handler in handlers.items():
            signal.signal(sign, handler)


def _url(listener: socket.socket) -> str:
    """Where this machine reaches the service."""
    host, port = listener.getsockname()[:2]
    host = _EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _needs_token(settings: Settings) -> bool:
    """Whether callers must show the token: where the address is not loopback, or where one was set."""
    if settings.token:
        return True
    if settings.host != "localhost" and not _is_loopback(settings.host):
        raise InvalidSettingError("host", settings.host, "an address other than loopback needs a token; set COLDSPARK_TOKEN")
    return False


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
        raise InvalidSettingError(
            "port", where, f"{os.strerror(error.errno) if error.errno and error.errno > 0 else error}; name another with --port"
        ) from error
