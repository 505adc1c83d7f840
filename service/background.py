"""Starting the service in the background, for a command or an agent's tool that finds none. Imports nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from compactor.lock import holder
from models.errors import BusyError, ServiceStartError
from models.settings import BUNDLED_MODEL, Settings
from service.client import RemoteBackend
from service.logfile import log_file, open_log
from service.owner import index_lock, make_state_folder, service_lock
from service.wiring import running_service

ANSWERS_WITHIN_SECONDS = 30.0
READY_WITHIN_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_LONGEST_REASON = 4096


def ensure_service(
    settings: Settings, answers_within: float = ANSWERS_WITHIN_SECONDS, ready_within: float = READY_WITHIN_SECONDS
) -> RemoteBackend:
    """The running service; started in the background when none answers, and given time to be ready (both limits in seconds).

    Raises ServiceStartError when it does not come up, BusyError while a command has the index, OtherMemoryError, OtherVersionError.
    """
    remote = _answering(settings, time.monotonic() + answers_within)
    deadline = time.monotonic() + ready_within
    while remote.is_starting() and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return remote


def _answering(settings: Settings, deadline: float) -> RemoteBackend:
    started: Started | None = None
    while True:
        if remote := running_service(settings):
            return remote
        owner = holder(index_lock(settings.state_dir)) or holder(service_lock(settings.state_dir))
        if started is None and owner is None:
            started = Started.now(settings)
        elif started and started.has_ended():
            started = None  # another service was quicker, or a command has the index: who has it now is seen in the next round
        if time.monotonic() >= deadline:
            if started is None:
                raise BusyError("index", index_lock(settings.state_dir), owner or "another process")
            raise started.given_up()
        time.sleep(_LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Started:
    """A service process that was started here, and where its part of the log begins."""

    process: subprocess.Popen[bytes]
    log: Path
    begin: int

    @classmethod
    def now(cls, settings: Settings) -> Started:
        """Starts one with these settings, in a session of its own, without anything of this process. Raises ServiceStartError."""
        path = log_file(settings.state_dir)
        command = [sys.executable, "-P", "-m", "service", "serve", "--background", "--settings-from-stdin"]
        make_state_folder(settings.state_dir)
        try:
            fd = open_log(path)
            try:
                begin = os.fstat(fd).st_size
                process = subprocess.Popen(  # noqa: S603 - this very program
                    command, stdin=subprocess.PIPE, stdout=fd, stderr=fd, cwd="/", start_new_session=True, umask=0o077, env=_environment()
                )
            finally:
                os.close(fd)
            _hand_over(process, handed_over(settings).encode())
        except OSError as error:
            raise ServiceStartError(error.strerror or str(error), path) from error
        # A parent that lives on must take note of its child's end, or leaves a zombie.
        threading.Thread(target=process.wait, name="coldspark-child", daemon=True).start()
        return cls(process, path, begin)

    def has_ended(self) -> bool:
        """Whether it ended since another process owns the index. Raises ServiceStartError when it ended for any other reason."""
        code = self.process.poll()
        if code is None:
            return False
        if code in (0, BusyError.exit_code):
            return True
        raise ServiceStartError(self._reason() or f"it ended with code {code}", self.log)

    def given_up(self) -> ServiceStartError:
        """Ends one that does not answer in time."""
        self.process.terminate()
        return ServiceStartError("it did not answer in time", self.log)

    def _reason(self) -> str:
        """What it said last."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(self.begin, os.fstat(file.fileno()).st_size - _LONGEST_REASON))
                lines = file.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        last = next((line for line in reversed(lines) if line.strip()), "")
        return last.removeprefix("coldspark: ").strip()


def handed_over(settings: Settings) -> str:
    """The settings as JSON, for a process in another folder; a free port is taken unless one was set."""
    values: dict[str, object] = {"state_dir": settings.state_dir}
    if "port" not in settings.model_fields_set:
        values["port"] = 0
    if settings.model != BUNDLED_MODEL and Path(settings.model).expanduser().is_dir():
        values["model"] = os.path.abspath(Path(settings.model).expanduser())  # noqa: PTH100 - resolve() would follow links
    return Settings.model_validate({**settings.model_dump(exclude_unset=True), **values}).model_dump_json(exclude_unset=True)


def _hand_over(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    try:
        process.stdin.write(data)
        process.stdin.close()
    except BrokenPipeError:
        process.stdin = None  # it ended already; its log says why


def _environment() -> dict[str, str]:
    """This process's own, with the folder from which it was imported, since the child runs in another."""
    home = str(Path(__file__).parents[1])
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
