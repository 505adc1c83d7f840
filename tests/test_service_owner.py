"""Who owns the index: the lock, and the address that the owner publishes."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from compactor.lock import held
from models.errors import BusyError, UnreadableFileError, WriteFailedError
from models.settings import Settings
from service.owner import Address, address_file, drop_litter, find, living, owned, published, service_lock
from service.wiring import backend, claimed, running_service
from tests.service_support import settings_for

ADDRESS = Address("http://127.0.0.1:9", "s3cret", os.getpid(), "0.1.0", ())


def test_address_is_found_while_it_is_published(tmp_path: Path) -> None:
    """The address stands in its file for its owner alone, and is gone behind the block."""
    with published(tmp_path, ADDRESS):
        assert find(tmp_path) == ADDRESS
        assert address_file(tmp_path).stat().st_mode & 0o777 == 0o600
        assert [p.name for p in tmp_path.iterdir()] == ["service.json"]
    assert find(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_address_goes_with_a_failure(tmp_path: Path) -> None:
    """A service that fails takes its address away."""
    with pytest.raises(KeyError), published(tmp_path, ADDRESS):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_address_of_a_successor_is_left(tmp_path: Path) -> None:
    """Whoever published since is not taken away."""
    other = Address("http://127.0.0.1:10", "t", 1, "0.1.0", ())
    with published(tmp_path, ADDRESS):
        address_file(tmp_path).write_text(json.dumps({"url": other.url, "token": "t", "pid": 1, "version": "0.1.0", "folders": []}))
    assert find(tmp_path) == other


def test_stricter_than_an_old_file(tmp_path: Path) -> None:
    """An old file that others may read is replaced, not written into, so that nobody holds the token open."""
    address_file(tmp_path).write_text("{}")
    address_file(tmp_path).chmod(0o644)
    with published(tmp_path, ADDRESS):
        assert address_file(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"5", b"{}", b'{"url": "http://127.0.0.1:9"}', b"\xff\xfe",
        b'{"url":"x","token":"t","pid":1,"version":"1","x":1}',
        b'{"url": 5, "token": null, "pid": "x", "version": []}',
        b'{"url":"http://127.0.0.1:port","token":"t","pid":1,"version":"1"}',
    ],
)  # fmt: skip
def test_garbled_address_leads_nowhere(tmp_path: Path, content: bytes) -> None:
    """A torn or foreign file is no service."""
    settings = settings_for(tmp_path)
    settings.state_dir.mkdir()
    address_file(settings.state_dir).write_bytes(content)
    assert running_service(settings) is None


def test_address_counts_while_its_process_owns_the_index(tmp_path: Path) -> None:
    """With the lock held by the process that published, the address is a living one; without the lock it is left over."""
    with published(tmp_path, ADDRESS):
        assert living(tmp_path) is None
        with owned(tmp_path, 0.0):
            assert living(tmp_path) == ADDRESS
        assert living(tmp_path) is None


def test_address_of_another_process_than_the_owner_is_left_over(tmp_path: Path) -> None:
    """A dead service's address leads nowhere while a command has the index, though that process lives."""
    with owned(tmp_path, 0.0), published(tmp_path, replace(ADDRESS, pid=os.getppid())):
        assert living(tmp_path) is None


def test_reused_port_and_process_are_not_spoken_to(tmp_path: Path) -> None:
    """Whoever has a dead service's port now is not shown its token, even if its process id lives again."""
    settings = settings_for(tmp_path)
    settings.state_dir.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        with published(settings.state_dir, replace(ADDRESS, url=f"http://127.0.0.1:{server.getsockname()[1]}")):
            assert running_service(settings) is None
            with backend(settings, 0.0):
                pass
            with claimed(settings, 0.0, 0.0):
                pass
        with pytest.raises(TimeoutError):
            server.accept()


def test_service_that_is_coming_up_has_the_first_claim(tmp_path: Path) -> None:
    """While a service waits for the index, or starts, no command takes the index before it, and no second service waits along."""
    settings = settings_for(tmp_path)
    settings.state_dir.mkdir()
    lock = service_lock(settings.state_dir)
    with held(lock, "state folder"):
        with pytest.raises(BusyError) as command, backend(settings, 0.0):
            pass
        with pytest.raises(BusyError) as service, claimed(settings, 0.0):
            pass
    assert str(command.value) == (
        f"The index is in use by a service that does not answer, process {os.getpid()} (lock {lock}): wait for it to finish and run again."
    )
    assert str(service.value) == (
        f"The state folder is in use by process {os.getpid()} (lock {lock}): wait for it to finish and run again."
    )
    with claimed(settings, 0.0, 0.0), pytest.raises(BusyError), backend(settings, 0.0):
        pass


def test_service_waits_for_a_command(tmp_path: Path) -> None:
    """A service gives up when a command keeps the index for longer than it may wait."""
    settings = settings_for(tmp_path)
    with owned(settings.state_dir, 0.0), pytest.raises(BusyError), claimed(settings, 0.0, 0.0):
        pass


def test_link_in_the_address_files_place_is_not_followed(tmp_path: Path) -> None:
    """A planted link is neither read nor written through; publishing takes its place."""
    aim = tmp_path / "aim.json"
    aim.write_text(json.dumps(asdict(ADDRESS)))
    aim.chmod(0o600)
    state = tmp_path / "state"
    state.mkdir()
    address_file(state).symlink_to(aim)
    before = aim.read_bytes()
    assert find(state) is None
    other = replace(ADDRESS, token="other")  # noqa: S106 - made up here
    with published(state, other):
        assert find(state) == other
        assert not address_file(state).is_symlink()
    assert aim.read_bytes() == before


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_address_that_others_may_write_is_not_believed(tmp_path: Path, mode: int) -> None:
    """A file that another user could have written leads nowhere."""
    with published(tmp_path, ADDRESS):
        address_file(tmp_path).chmod(mode)
        assert find(tmp_path) is None


def test_address_is_its_owners_in_an_open_folder(tmp_path: Path) -> None:
    """A state folder that a group may read, and a lax umask, open nothing."""
    tmp_path.chmod(0o775)
    before = os.umask(0)
    try:
        with published(tmp_path, ADDRESS):
            assert address_file(tmp_path).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_pipe_in_the_address_files_place_is_not_waited_for(tmp_path: Path) -> None:
    """Whatever stands there, looking takes no time."""
    os.mkfifo(address_file(tmp_path))
    assert find(tmp_path) is None


def test_folder_in_the_address_files_place_is_told(tmp_path: Path) -> None:
    """What cannot be replaced is named, and no litter is left."""
    address_file(tmp_path).mkdir()
    with pytest.raises(WriteFailedError, match=r"service\.json"), published(tmp_path, ADDRESS):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["service.json"]


def test_litter_of_killed_services_is_dropped(tmp_path: Path) -> None:
    """What a service left that was killed while it published goes; nothing else does."""
    for name in ("service.0123.tmp", "service.log", "service.json"):
        (tmp_path / name).write_bytes(b"")
    drop_litter(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["service.json", "service.log"]


def test_token_is_not_shown_by_accident() -> None:
    """Neither an address nor the settings show their token when they are printed."""
    assert "s3cret" not in repr(ADDRESS)
    assert "s3cret" not in repr(Settings(token="s3cret", state_dir=Path("/tmp")))  # noqa: S106, S108 - made up here


def test_nobody_answers_at_an_old_address(tmp_path: Path) -> None:
    """The address of a service that was killed is no service, and the index can be had in this process."""
    settings = settings_for(tmp_path)
    settings.state_dir.mkdir()
    with published(settings.state_dir, ADDRESS):
        assert running_service(settings) is None
        with backend(settings, 0.0):
            pass


def test_state_folder_is_made_private(tmp_path: Path) -> None:
    """The folder of tokens and index is its owner's alone, and the lock is held within the block."""
    state = tmp_path / "a" / "state"
    with owned(state, 0.0):
        assert state.stat().st_mode & 0o777 == 0o700
        with pytest.raises(BusyError), owned(state, 0.0):
            pass
    with owned(state, 0.0):
        pass


def test_busy_index_names_the_process(tmp_path: Path) -> None:
    """Without a published address, the holder's process id is told."""
    lock = tmp_path / "index.lock"
    with held(lock, "index"), pytest.raises(BusyError) as caught, owned(tmp_path, 0.0):
        pass
    assert str(caught.value) == f"The index is in use by process {os.getpid()} (lock {lock}): wait for it to finish and run again."


def test_busy_index_names_the_service(tmp_path: Path) -> None:
    """With a published address, that is told."""
    lock = tmp_path / "index.lock"
    pid = os.getpid()
    with held(lock, "index"), published(tmp_path, ADDRESS), pytest.raises(BusyError) as caught, owned(tmp_path, 0.0):
        pass
    assert str(caught.value) == (
        f"The index is in use by the service at http://127.0.0.1:9 (process {pid}) (lock {lock}): wait for it to finish and run again."
    )


def test_state_folder_that_is_a_file(tmp_path: Path) -> None:
    """A file in the folder's place is told in one sentence."""
    (tmp_path / "state").write_bytes(b"")
    with pytest.raises(UnreadableFileError) as caught, owned(tmp_path / "state", 0.0):
        pass
    assert str(caught.value) == f"The state folder {tmp_path / 'state'} cannot be read (File exists): make it readable and run again."


def test_index_that_stays_busy_is_given_up(tmp_path: Path) -> None:
    """A command that neither finds a service nor gets the lock ends as busy."""
    settings = settings_for(tmp_path)
    settings.state_dir.mkdir()
    with held(settings.state_dir / "index.lock", "index"), pytest.raises(BusyError), backend(settings, 0.0):
        pass
