"""Who owns the index: the running service, which publishes its address for the other commands to find."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from compactor.lock import held, holder
from models.errors import BusyError, NoMemoryFolderError, UnreadableFileError, WriteFailedError
from models.settings import Settings

_LONGEST = 64 * 1024
"""Bytes of an address file; a longer one is somebody else's."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a running service answers; the token proves to it that a caller may read its owner's files."""

    url: str
    token: str = field(repr=False)
    pid: int
    version: str
    folders: tuple[str, ...]

    def answers_for(self, settings: Settings) -> bool:
        """Whether the service's memory folders are the ones that *settings* name; none named means any."""
        try:
            wanted = tuple(str(p.memory_dir) for p in settings.all_pools())
        except NoMemoryFolderError:
            return True
        return wanted == self.folders


def address_file(state_dir: Path) -> Path:
    """Where the service's address is published, readable by its owner alone."""
    return state_dir / "service.json"


def index_lock(state_dir: Path) -> Path:
    """The lock that the owner of the index holds as long as it lives."""
    return state_dir / "index.lock"


def service_lock(state_dir: Path) -> Path:
    """The lock that a service holds from its start on: commands leave the index to the one that is coming up."""
    return state_dir / "service.lock"


def find(state_dir: Path) -> Address | None:
    """The published address, if there is one; whether anybody answers there is another question."""
    try:
        found = json.loads(_own_bytes(address_file(state_dir)))
        address = Address(
            str(found["url"]), str(found["token"]), int(found["pid"]), str(found["version"]), tuple(map(str, found["folders"]))
        )
        usable = urlsplit(address.url).port is not None and address.url.startswith("http://") and address.token.isascii()
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return address if usable else None


def living(state_dir: Path) -> Address | None:
    """The published address of the very process that owns the index now.

    The kernel frees the lock when its holder ends, so what a dead service left behind leads nowhere, whoever has its process id
    or its port since; and its token is not shown to them.
    """
    address = find(state_dir)
    if address is None or holder(index_lock(state_dir)) != f"process {address.pid}":
        return None
    return address


def _own_bytes(path: Path) -> bytes:
    """What stands in a file that only its owner can have put there; a link in its place is not followed."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(fd)
        owners = {os.geteuid(), path.parent.stat().st_uid}
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o022 or found.st_uid not in owners:
            raise ValueError(path)
        return os.read(fd, _LONGEST)
    finally:
        os.close(fd)


@contextmanager
def published(state_dir: Path, address: Address) -> Iterator[None]:
    """Publishes *address* for the `with` block. Raises WriteFailedError."""
    path = address_file(state_dir)
    try:
        _replace(path, json.dumps(asdict(address)).encode())
    except OSError as error:
        raise WriteFailedError(path, error.strerror or str(error)) from error
    try:
        yield
    finally:
        withdraw(state_dir, address)


def withdraw(state_dir: Path, address: Address) -> None:
    """Takes *address* away, if it is still the published one."""
    if find(state_dir) == address:
        address_file(state_dir).unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    """All or nothing, through a new file of its owner's alone, so that nobody holds it open already."""
    temp = path.with_name(f"service.{secrets.token_hex(8)}.tmp")
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.replace(temp, path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise


def drop_litter(state_dir: Path) -> None:
    """Removes what services left that were killed while they published; only the owner of the index may."""
    for path in state_dir.glob("service.*.tmp"):
        with suppress(OSError):
            path.unlink()


def make_state_folder(state_dir: Path) -> None:
    """Makes the state folder, its owner's alone, if it is not there. Raises UnreadableFileError."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UnreadableFileError(state_dir, "state folder", error.strerror or str(error)) from error


@contextmanager
def owned(state_dir: Path, wait_seconds: float) -> Iterator[None]:
    """Holds the index lock for the `with` block. Raises BusyError, naming the service when one is running."""
    make_state_folder(state_dir)
    try:
        with held(index_lock(state_dir), "index", wait_seconds):
            yield
    except BusyError:
        address = living(state_dir)
        if address is None:
            raise
        raise BusyError("index", index_lock(state_dir), f"the service at {address.url} (process {address.pid})") from None
