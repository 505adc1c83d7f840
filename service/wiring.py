"""Which collaborators serve a command: the running service if there is one, else the index in this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from compactor.lock import held, holder
from models.errors import AlreadyServedError, BusyError, OtherMemoryError, OtherVersionError, ServiceGoneError, ServiceStartError
from models.settings import Settings
from service import __version__
from service.backend import Backend
from service.client import RemoteBackend
from service.owner import living, make_state_folder, owned, service_lock

Answer = TypeVar("Answer")

WAIT_SECONDS = 15.0
_RETRY_SECONDS = 0.2
_CLAIM_SECONDS = 60.0
_STARTS_SECONDS = 5.0
_PROBED_SECONDS = 0.5
"""Others look at a lock by taking it for an instant."""
_ATTEMPTS = 10

log = logging.getLogger("coldspark")


def running_service(settings: Settings) -> RemoteBackend | None:
    """The service that owns this state folder's index, if it answers.

    Raises OtherMemoryError when it serves other folders, OtherVersionError when it is not of this version.
    """
    address = living(settings.state_dir)
    if address is None:
        return None
    remote = RemoteBackend(address)
    version = remote.version()
    if version is None:
        return None
    if version != __version__:
        raise OtherVersionError(address.url, address.pid, version, __version__)
    if not address.answers_for(settings):
        raise OtherMemoryError(address.url, address.folders)
    return remote


@contextmanager
def claimed(settings: Settings, starts_within: float = _STARTS_SECONDS, wait_seconds: float = _CLAIM_SECONDS) -> Iterator[None]:
    """Holds the index for a service; waits for a command that has it (*wait_seconds*), and for no other service.

    Raises AlreadyServedError, BusyError.
    """
    make_state_folder(settings.state_dir)
    with ExitStack() as stack:
        try:
            stack.enter_context(held(service_lock(settings.state_dir), "state folder", _PROBED_SECONDS))
        except BusyError as busy:
            raise _other_service(settings, starts_within) or busy from None
        stack.enter_context(owned(settings.state_dir, wait_seconds))
        yield


def _other_service(settings: Settings, within: float) -> AlreadyServedError | None:
    """What to tell of the service that was there first, which may only just be coming up."""
    deadline = time.monotonic() + within
    while True:
        address = living(settings.state_dir)
        if address and RemoteBackend(address).version() is not None:
            return AlreadyServedError(address.url, address.pid)
        if time.monotonic() >= deadline:
            return None
        time.sleep(_RETRY_SECONDS)


@contextmanager
def backend(settings: Settings, wait_seconds: float = WAIT_SECONDS) -> Iterator[Backend]:
    """The index, through the service or under the lock; while another process starts or ends, waits for it.

    With the setting `background`, starts the service when there is none. Raises BusyError when neither can be had within
    *wait_seconds*.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            remote = _service(settings)
        except ServiceStartError as error:
            log.warning("%s This command works without it.", error)
            settings = settings.model_copy(update={"background": False})
            continue
        if remote:
            yield remote
            return
        if coming := holder(service_lock(settings.state_dir)):
            if time.monotonic() >= deadline:
                raise BusyError("index", service_lock(settings.state_dir), f"a service that does not answer, {coming}")
            time.sleep(_RETRY_SECONDS)
            continue
        try:
            with owned(settings.state_dir, _RETRY_SECONDS):
                from service.local import LocalBackend

                local = LocalBackend(settings)
                try:
                    yield local
                finally:
                    local.close()
                return
        except BusyError:
            if time.monotonic() >= deadline:
                raise


def ask(settings: Settings, question: Callable[[Backend], Answer]) -> Answer:
    """Puts *question* to the index; once more when the service went away before it answered. It must be safe to ask twice."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with backend(settings) as found:
                return question(found)
        except ServiceGoneError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


def _service(settings: Settings) -> RemoteBackend | None:
    if not settings.background:
        return running_service(settings)
    from service.background import ensure_service

    return ensure_service(settings)
