"""Who owns the index: the running service, which publishes its address for the other commands to find."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from compactor.lock import held
from models.errors import BusyError, NoMemoryFolderError, UnreadableFileError
from models.settings import Settings


@dataclass(frozen=True, slots=True)
class Address:
    """Where a running service answers; the token proves to it that a caller may read its owner's files."""

    url: str
    token: str
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


def find(state_dir: Path) -> Address | None:
    """The published address, if there is one; whether anybody answers there is another question."""
    try:
        found = json.loads(address_file(state_dir).read_text(encoding="utf-8"))
        address = Address(
            str(found["url"]), str(found["token"]), int(found["pid"]), str(found["version"]), tuple(map(str, found["folders"]))
        )
        usable = urlsplit(address.url).port is not None and address.url.startswith("http://") and address.token.isascii()
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return address if usable else None


@contextmanager
def published(state_dir: Path, address: Address) -> Iterator[None]:
    """Publishes *address* for the `with` block."""
    path = address_file(state_dir)
    temp = path.with_name(f"service.{os.getpid()}.tmp")
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(asdict(address), file)
    os.replace(temp, path)
    try:
        yield
    finally:
        if find(state_dir) == address:
            path.unlink(missing_ok=True)


@contextmanager
def owned(state_dir: Path, wait_seconds: float) -> Iterator[None]:
    """Holds the index lock for the `with` block. Raises BusyError, naming the service when one is running."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UnreadableFileError(state_dir, "state folder", error.strerror or str(error)) from error
    try:
        with held(state_dir / "index.lock", "index", wait_seconds):
            yield
    except BusyError:
        address = find(state_dir)
        if address is None:
            raise
        raise BusyError("index", state_dir / "index.lock", f"the service at {address.url} (process {address.pid})") from None
