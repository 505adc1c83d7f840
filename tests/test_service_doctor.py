"""`doctor`: memory, model, index and service in one look that writes nothing, with exit codes a script can use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from models.errors import NoMemoryFolderError
from models.results import Check, DoctorResult
from models.settings import PoolSettings, Settings
from service import render
from service.doctor import doctor
from service.local import LocalBackend
from tests.fakes import FakeEmbedder
from tests.samples import HEADER, KILN, TIDE, delve, log
from tests.service_support import run, settings_for, tree

ARCHIVE = b"# Dream Sparks Archive\n\n## Archived 2026-05-01 \xe2\x80\x94 1 entries (date range: 2026-01-01 to 2026-01-01)\n\n" + delve(
    "Long archived", "2026-01-01"
)
SURVIVAL = "| Anchor | Status |\n|---|---|\n| Kiln cooling and staged eviction | alive |\n"
ADVICE = "Run `coldspark index`, or leave `coldspark serve` running."


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A pool that nothing is wrong with."""
    found = settings_for(tmp_path, HEADER + log(KILN, TIDE), ARCHIVE)
    (tmp_path / "knowledge" / "sparks" / "survival-log.md").write_text(SURVIVAL)
    return found


def indexed(settings: Settings) -> None:
    """Makes an index and closes it."""
    backend = LocalBackend(settings, FakeEmbedder())
    backend.sync()
    backend.close()


def look(settings: Settings) -> DoctorResult:
    """What `doctor` finds; no file anywhere under the test's folder changes for it."""
    folder = settings.state_dir.parent
    before = tree(folder)
    found = doctor(settings)
    assert tree(folder) == before
    return found


def named(settings: Settings, name: str) -> Check:
    """The one check of this name."""
    (found,) = [c for c in look(settings).checks if c.name == name]
    return found


def flags(settings: Settings, *more: str) -> list[str]:
    """The command line for these settings."""
    return ["doctor", f"--memory-dir={settings.memory_dir}", f"--state-dir={settings.state_dir}", *more]


def test_all_is_well(settings: Settings) -> None:
    """Memory first, then model, index and service; the worst status is the whole one's."""
    indexed(settings)
    found = look(settings)
    assert found.status == "ok", found
    assert [c.name for c in found.checks] == ["files", "places", "runs", "archive", "knowledge", "size", "model", "index", "service"]
    assert found.checks[-3].message.endswith("its files have the published checksums")
    assert found.checks[-2].message.startswith("3 entries, ")
    assert found.checks[-1].message == "not running; commands open the index themselves"


def test_no_pool_is_an_error(tmp_path: Path) -> None:
    """There is nothing to look at, and the sentence says what to set."""
    with pytest.raises(NoMemoryFolderError):
        doctor(Settings(state_dir=tmp_path / "state"))


def test_an_index_that_is_missing(settings: Settings) -> None:
    """It is made on demand, so it is no problem; its folder is not made by looking."""
    assert named(settings, "index") == Check(
        name="index", status="warning", message=f"there is no index in {settings.state_dir}", advice=ADVICE
    )
    assert not settings.state_dir.exists()


def test_an_index_that_lags_behind(settings: Settings) -> None:
    """Memory files that changed since the last sync show, without a sync."""
    indexed(settings)
    assert settings.memory_dir is not None
    with (settings.memory_dir / "dream-sparks.md").open("ab") as file:
        file.write(b"\n" + delve("New", "2026-05-19"))
    found = named(settings, "index")
    assert (found.status, found.advice) == ("warning", ADVICE)


def test_an_index_that_could_not_read_every_file(settings: Settings) -> None:
    """The last sync's own word is passed on."""
    assert settings.memory_dir is not None
    (settings.memory_dir / "dream-sparks-archive.md").unlink()
    (settings.memory_dir / ".dream-sparks-archive.md.icloud").touch()
    indexed(settings)
    found = named(settings, "index")
    assert (found.status, found.message, found.advice) == ("warning", "the last sync could not read every file", ADVICE)


@pytest.mark.parametrize("damage", [b"garbage" * 1000, b"", b"SQLite format 3\x00"], ids=["garbage", "empty", "header-only"])
def test_an_index_that_is_damaged(settings: Settings, damage: bytes) -> None:
    """A catalog that cannot be read is not called missing: something was there, and comes back from the Markdown."""
    indexed(settings)
    for path in settings.state_dir.rglob("catalog.sqlite3*"):
        if path.name == "catalog.sqlite3":
            path.write_bytes(damage)
        else:
            path.unlink()
    found = named(settings, "index")
    assert found.status == "problem"
    assert found.advice == "Run `coldspark index`: it comes back from the Markdown."


def test_an_index_with_a_broken_page(settings: Settings) -> None:
    """Damage in the middle is found by looking through, before a query trips over it."""
    indexed(settings)
    (path,) = settings.state_dir.rglob("catalog.sqlite3")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 5000] = b"\xff" * 5000
    path.write_bytes(data)
    assert named(settings, "index").status == "problem"


def test_a_model_folder_that_is_missing(settings: Settings) -> None:
    """It is a problem with the way out in its sentence, and hides neither index nor service."""
    gone = str(settings.state_dir.parent / "no-model")
    found = look(settings.model_copy(update={"model": gone}))
    (model,) = [c for c in found.checks if c.name == "model"]
    assert model.status == "problem"
    assert model.message.startswith(f"The embedding model {gone} cannot be loaded (")
    assert [c.name for c in found.checks][-2:] == ["index", "service"]
    assert found.status == "problem"


def test_each_pool_is_looked_at(tmp_path: Path) -> None:
    """A pool that is broken hides no other."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dream-sparks.md").write_bytes(KILN)
    shutil.rmtree(tmp_path / "home")
    pools = tuple(PoolSettings(name=name, memory_dir=tmp_path / name) for name in ("home", "work"))
    found = look(Settings(pools=pools, state_dir=tmp_path / "state"))
    assert [(c.name, c.status) for c in found.checks if c.pool == "home"] == [("files", "problem")]
    assert [(c.name, c.status) for c in found.checks if c.pool == "work"][:2] == [("files", "ok"), ("places", "ok")]
    assert found.status == "problem"


def test_the_command_ends_with_0_when_nothing_is_a_problem(settings: Settings) -> None:
    """Warnings, such as no index yet, do not fail a script; its JSON has a stable shape."""
    before = tree(settings.state_dir.parent)
    done = run(*flags(settings, "--json"), COLDSPARK_NOW="2026-05-20T12:00:00Z")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["status"] == "warning"
    assert all(set(check) == {"name", "pool", "status", "message", "advice"} for check in answer["checks"])
    assert {check["status"] for check in answer["checks"]} == {"ok", "warning"}
    assert tree(settings.state_dir.parent) == before


def test_the_command_ends_with_3_when_something_is(settings: Settings) -> None:
    """The findings are the result, on stdout, also when they are bad."""
    assert settings.memory_dir is not None
    (settings.memory_dir / "dream-sparks.md").unlink()
    before = tree(settings.state_dir.parent)
    done = run(*flags(settings), COLDSPARK_NOW="2026-05-20T12:00:00Z")
    assert (done.returncode, done.stderr) == (3, "")
    assert f"FAIL files (default)      The active file {settings.memory_dir / 'dream-sparks.md'} does not exist" in done.stdout
    assert tree(settings.state_dir.parent) == before


def test_checks_are_shown_with_their_way_out() -> None:
    """One line a check, advice below it, a count at the end."""
    checks = [
        Check(name="files", pool="home", status="ok", message="fine"),
        Check(name="index", status="warning", message="stale", advice="Run it."),
        Check(name="places", pool="home", status="problem", message="The thing is broken: mend it."),
    ]
    assert render.checks(DoctorResult(status="problem", checks=checks)) == (
        "\x1b[32mok  \x1b[0m files (home)         fine\n"
        "\x1b[33m!   \x1b[0m index                stale\n"
        "                          -> Run it.\n"
        "\x1b[31mFAIL\x1b[0m places (home)        The thing is broken: mend it.\n"
        "1 problem, 1 warning; 1 check well\n"
    )
