"""Running the service as a process: one owner of the index, a published address, and a clean end whatever the signal."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import uvicorn

from models.errors import InvalidSettingError
from models.settings import Settings
from service import __version__
from service.app import EVERYWHERE, Idle, create_app
from service.owner import Address, drop_litter, published, withdraw
from service.runtime import Runtime
from service.wiring import claimed

log = logging.getLogger("coldspark")

_ANSWER_WITHIN_SECONDS = 3.0
"""How long requests may go on once the service is to end; then they are refused."""
_CLOSE_WITHIN_SECONDS = 4
_LAST_WAIT_SECONDS = 1.0
_END_WITHIN_SECONDS = 8.5
_SWITCH_SECONDS = 0.001
"""How long a thread keeps the interpreter from the others: health must be answered while ten questions are embedded."""


def serve(
    settings: Settings, *, background: bool = False, idle_minutes: float | None = None, runtime_of: Callable[[Settings], Runtime] = Runtime
) -> None:
    """Runs the service until it is told to end, or has been idle for so long (None or 0: never).

    Raises AlreadyServedError, BusyError when another process owns the index, InvalidSettingError when the address cannot be used.
    """
    required = _needs_token(settings)
    sys.setswitchinterval(_SWITCH_SECONDS)
    with claimed(settings), _listening(settings) as listener:
        drop_litter(settings.state_dir)
        folders = tuple(str(p.memory_dir) for p in settings.all_pools())
        address = Address(_url(listener), settings.token or secrets.token_urlsafe(24), os.getpid(), __version__, folders)
        runtime = runtime_of(settings)
        server = Server(runtime, address, required=required, idle_seconds=60 * idle_minutes if idle_minutes else None)
        with _signals(server, background=background), published(settings.state_dir, address):
            log.info("serving at %s (documentation at %s/docs)", address.url, address.url)
            server.run(sockets=[listener])
            runtime.stop(_LAST_WAIT_SECONDS)  # uvicorn leaves it out when it is told twice
        if runtime.is_working:
            _leave()


class Server(uvicorn.Server):
    """uvicorn, which refuses what it cannot answer before it ends, and ends in time."""

    def __init__(self, runtime: Runtime, address: Address, *, required: bool, idle_seconds: float | None) -> None:
        self._told = asyncio.Event()
        self._runtime = runtime
        self._withdraw = partial(withdraw, runtime.settings.state_dir, address)
        idle = Idle(idle_seconds, self._end_idle) if idle_seconds else None
        app = create_app(runtime, address.token, required=required, told=self._told, idle=idle)
        super().__init__(
            uvicorn.Config(
                app, log_config=None, log_level="warning", access_log=False, timeout_graceful_shutdown=_CLOSE_WITHIN_SECONDS,
                server_header=False,
            )
        )  # fmt: skip

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes the door, lets answers be finished, refuses the rest."""
        last = threading.Timer(_END_WITHIN_SECONDS, self._leave)
        last.daemon = True
        last.start()
        asyncio.get_running_loop().call_later(_ANSWER_WITHIN_SECONDS, self._told.set)
        await super().shutdown(sockets)
        if self._runtime.is_working and not self.force_exit:
            self._leave()

    def _leave(self) -> None:
        self._withdraw()
        _leave()

    def _end_idle(self) -> None:
        log.info("nobody has asked for a while; the service ends")
        self.should_exit = True


def _leave() -> None:
    """Ends the process at once; the kernel frees lock and port.

    A thread inside a native library cannot be ended, and would abort the interpreter's own way out. What it may be writing is safe
    against that: the next sync finishes it.
    """
    logging.shutdown()
    os._exit(0)


@contextmanager
def _signals(server: Server, *, background: bool) -> Iterator[None]:
    """SIGTERM, SIGINT and a closed terminal end the service; one in the background has no terminal to lose.

    uvicorn handles the first two by itself and then raises them again, which would end the process before the address is withdrawn.
    """

    def stop(_sign: int, _frame: object) -> None:
        server.should_exit = True

    wanted = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: signal.SIG_IGN if background else stop}
    before = {sign: signal.signal(sign, handler) for sign, handler in wanted.items()}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def _url(listener: socket.socket) -> str:
    """Where this machine reaches the service."""
    host, port = listener.getsockname()[:2]
    host = EVERYWHERE.get(host, host)
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
