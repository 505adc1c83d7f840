"""A service in the background: started when there is none, once, with the same settings, and gone when nobody asks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compactor.lock import held, holder
from models.errors import BusyError, ServiceGoneError, ServiceStartError, UnreadableFileError
from models.settings import Settings
from service.background import ensure_service, handed_over
from service.logfile import log_file
from service.owner import find, index_lock, living
from service.wiring import ask, running_service
from tests.samples import KILN, TIDE, log
from tests.service_support import COMMAND, run, settings_for, until


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """A pool whose commands start a service; whatever runs at the end of the test is ended."""
    made = settings_for(tmp_path, log(KILN, TIDE), background=True)
    yield made
    if address := living(made.state_dir):
        os.kill(address.pid, signal.SIGTERM)
    until(lambda: holder(index_lock(made.state_dir)) is None)


def flags(settings: Settings) -> list[str]:
    """The flags that name the folders of *settings*."""
    return [f"--memory-dir={settings.memory_dir}", f"--state-dir={settings.state_dir}"]


def test_command_starts_the_service_and_goes_through_it(settings: Settings, tmp_path: Path) -> None:
    """The first command starts a service in full, in its own session, without a terminal or a folder of the command's; the next uses it."""
    first = run("recall", "evicting a cache in steps", "--json", *flags(settings), cwd=tmp_path, COLDSPARK_BACKGROUND="1")
    assert (first.returncode, first.stderr) == (0, "")
    answer = json.loads(first.stdout)
    assert (answer["degraded"], answer["stale"]) == (None, None)
    assert answer["hits"][0]["title"] == "Kiln cooling and staged eviction"
    address = living(settings.state_dir)
    assert address is not None
    pid = address.pid
    assert os.getsid(pid) == pid
    own = Path(f"/proc/{pid}")
    assert (own / "cwd").readlink() == Path("/")
    assert [(own / "fd" / str(n)).readlink() for n in range(3)] == [Path("/dev/null"), *[log_file(settings.state_dir)] * 2]
    assert log_file(settings.state_dir).stat().st_mode & 0o777 == 0o600
    assert address.token not in log_file(settings.state_dir).read_text()
    assert run("recall", "tide", *flags(settings)).returncode == 0
    os.kill(pid, signal.SIGHUP)
    assert json.loads(run("status", "--json", *flags(settings)).stdout)["service"] == address.url


def test_many_at_once_start_one(settings: Settings) -> None:
    """Callers that find no service at the same moment all end up with the same one, and the others' processes end quietly."""
    with ThreadPoolExecutor(4) as threads:
        found = [f.result() for f in [threads.submit(ensure_service, settings, ready_within=0) for _ in range(4)]]
    assert len({remote.address for remote in found}) == 1
    assert found[0].address == living(settings.state_dir)
    assert "Traceback" not in log_file(settings.state_dir).read_text()


def test_idle_service_ends_and_leaves_nothing(settings: Settings) -> None:
    """After its time without a question it is gone: address withdrawn, lock free."""
    ensure_service(settings.model_copy(update={"idle_minutes": 0.001}), ready_within=0)
    until(lambda: holder(index_lock(settings.state_dir)) is None, 60)
    assert find(settings.state_dir) is None
    assert "nobody has asked for a while; the service ends" in log_file(settings.state_dir).read_text()


def test_killed_service_is_followed_by_another(settings: Settings) -> None:
    """After kill -9 the next caller has a new service without any help, the left address notwithstanding."""
    first = ensure_service(settings, ready_within=0).address
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: holder(index_lock(settings.state_dir)) is None)
    assert find(settings.state_dir) == first
    assert running_service(settings) is None
    assert ensure_service(settings, ready_within=0).address.pid != first.pid


def test_early_end_is_told_and_the_command_works_without(settings: Settings) -> None:
    """A service that cannot start is told with its own reason, and the command opens the index itself."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(ServiceStartError) as caught:
            ensure_service(Settings.model_validate({**settings.model_dump(exclude_unset=True), "port": int(port)}))
        reason = (
            f"The setting port (127.0.0.1:{port}) cannot be used: Address already in use; name another with --port."
            " Correct it there and run again"
        )
        path = log_file(settings.state_dir)
        assert str(caught.value) == f"The service could not be started in the background ({reason}): its log is {path}."
        done = run("index", "--json", *flags(settings), COLDSPARK_BACKGROUND="1", COLDSPARK_PORT=port)
    assert (done.returncode, json.loads(done.stdout)["added"]) == (0, 2)
    assert done.stderr == f"{caught.value} This command works without it.\n"


def test_service_that_never_answers_is_given_up(settings: Settings) -> None:
    """A limit that passes ends the process that was started."""
    with pytest.raises(ServiceStartError, match="it did not answer in time"):
        ensure_service(settings, answers_within=0)
    until(lambda: holder(index_lock(settings.state_dir)) is None)


def test_command_that_has_the_index_is_waited_for_and_named(settings: Settings) -> None:
    """While a command works on the index no service is started."""
    settings.state_dir.mkdir()
    with held(index_lock(settings.state_dir), "index"), pytest.raises(BusyError, match=f"process {os.getpid()}"):
        ensure_service(settings, answers_within=0.1)
    assert not log_file(settings.state_dir).exists()


def test_state_folder_that_is_a_file_is_told(settings: Settings) -> None:
    """What stands in the state folder's way is named."""
    settings.state_dir.write_bytes(b"")
    with pytest.raises(UnreadableFileError, match="File exists"):
        ensure_service(settings)


@pytest.mark.parametrize(
    ("values", "handed"),
    [
        ({}, {"port": 0}),
        ({"port": 8765}, {"port": 8765}),  # the default, but given
        ({"dream_days": 3, "token": "t"}, {"port": 0, "dream_days": 3, "token": "t"}),
        ({"now": "2026-05-20T12:00:00Z"}, {"port": 0, "now": "2026-05-20T12:00:00Z"}),
        ({"model": "some/name"}, {"port": 0, "model": "some/name"}),
        ({"model": "folder"}, {"port": 0, "model": "{cwd}/folder"}),  # another process has another working folder
        ({"pools": [{"name": "a", "memory_dir": "/a"}]}, {"port": 0, "pools": [{"name": "a", "memory_dir": "/a"}]}),
    ],
)
def test_settings_are_handed_over_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], handed: dict[str, Any]
) -> None:
    """What was set, and only that, reaches the other process, which reads the same settings from it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    settings = Settings.model_validate({"state_dir": tmp_path, **values})
    found = json.loads(handed_over(settings))
    assert found.pop("state_dir") == str(tmp_path)
    assert found == json.loads(json.dumps(handed).replace("{cwd}", str(tmp_path)))
    again = Settings.model_validate(json.loads(handed_over(settings)))
    assert again.model_copy(update={"port": settings.port, "model": settings.model}) == settings


def test_ensuring_imports_nothing_heavy() -> None:
    """Whoever only ensures the service has no web framework, model or index library in memory."""
    script = (
        "import sys, service.background\n"
        "sys.exit(', '.join({'torch', 'chromadb', 'fastapi', 'uvicorn', 'starlette', 'numpy', 'watchfiles'} & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run(
        [COMMAND.with_name("python"), "-c", script], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1], timeout=60
    )
    assert done.stderr == ""


def test_question_is_put_again_when_the_service_goes(tmp_path: Path) -> None:
    """A service that ends between being found and being asked costs no answer; one that always goes is told."""
    settings = settings_for(tmp_path, log(KILN))
    asked: list[int] = []

    def gone(times: int) -> Callable[[object], int]:
        def question(_found: object) -> int:
            asked.append(1)
            if len(asked) <= times:
                raise ServiceGoneError("http://127.0.0.1:1", "it went away")
            return len(asked)

        return question

    assert ask(settings, gone(2)) == 3
    asked.clear()
    with pytest.raises(ServiceGoneError):
        ask(settings, gone(100))
    assert len(asked) == 10
