"""Which collaborators serve a command: the running service if there is one, else the index in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from models.errors import BusyError, OtherMemoryError
from models.settings import Settings
from service.backend import Backend
from service.client import RemoteBackend
from service.owner import find, owned

WAIT_SECONDS = 15.0
_RETRY_SECONDS = 0.2


def running_service(settings: Settings) -> RemoteBackend | None:
    """The service that owns this state folder's index, if it answers. Raises OtherMemoryError when it serves other folders."""
    address = find(settings.state_dir)
    remote = RemoteBackend(address) if address else None
    if address is None or remote is None or not remote.is_alive():
        return None
    if not address.answers_for(settings):
        raise OtherMemoryError(address.url, address.folders)
    return remote


@contextmanager
def backend(settings: Settings, wait_seconds: float = WAIT_SECONDS) -> Iterator[Backend]:
    """The index, through the service or under the lock; while another process starts or ends, waits for it.

    Raises BusyError when neither can be had within *wait_seconds*.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        if remote := running_service(settings):
            yield remote
            return
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
