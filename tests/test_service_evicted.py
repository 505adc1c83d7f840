"""What every command makes of a tier that a cloud service has taken off the disk: nothing of it is forgotten, nothing begun anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from models.errors import EvictedFileError
from models.query import RecallRequest
from models.settings import Settings
from service import operations
from service.local import LocalBackend
from tests.compactor_places import EVICT
from tests.fakes import FakeEmbedder
from tests.samples import HEADER, KILN, TIDE, delve, log
from tests.service_support import settings_for, tree

ARCHIVE = b"# Dream Sparks Archive\n\n## Archived 2026-05-01 \xe2\x80\x94 1 entries (date range: 2026-01-01 to 2026-01-01)\n\n" + delve(
    "Kiln of old", "2026-01-01"
)


TIER = pytest.mark.parametrize("name", ["dream-sparks.md", "dream-sparks-archive.md"])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A pool with entries in both tiers."""
    return settings_for(tmp_path, HEADER + log(KILN, TIDE), ARCHIVE)


@EVICT
@TIER
def test_the_index_keeps_what_it_cannot_read(settings: Settings, evict: Callable[[Path], None], name: str) -> None:
    """Its rows stay and answer; the sync says `degraded`, recall and `status` say stale, and all is well once the file is back."""
    assert settings.memory_dir is not None
    path = settings.memory_dir / name
    data = path.read_bytes()
    backend = LocalBackend(settings, FakeEmbedder())
    first = backend.sync()
    assert (first.status, first.entries.active, first.entries.archive) == ("ok", 2, 1)
    evict(path)
    again = backend.sync()
    assert again.status == "degraded"
    assert (again.entries.active, again.entries.archive, again.removed) == (2, 1, 0)
    assert again.stale
    assert [w.file for w in again.warnings] == [str(path)]
    found = backend.recall(RecallRequest(query="kiln"))
    assert {hit.title for hit in found.hits} == {"Kiln cooling and staged eviction", "Tide tables and cron jitter", "Kiln of old"}
    assert found.stale
    assert operations.status(settings).index.stale
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    back = backend.sync()
    assert (back.status, back.added, back.removed, back.embedded) == ("ok", 0, 0, 0)
    backend.close()


@EVICT
@TIER
def test_a_rebuild_does_not_forget_it(settings: Settings, evict: Callable[[Path], None], name: str) -> None:
    """Building anew from what can be read would lose the rest; the live index stays or keeps the rows."""
    assert settings.memory_dir is not None
    backend = LocalBackend(settings, FakeEmbedder())
    backend.sync()
    evict(settings.memory_dir / name)
    again = backend.sync(rebuild=True)
    backend.close()
    assert again.status == "degraded"
    assert (again.entries.active, again.entries.archive) == (2, 1)


@EVICT
@TIER
def test_a_planned_sync_removes_nothing(settings: Settings, evict: Callable[[Path], None], name: str) -> None:
    """The plan says what the sync would do."""
    assert settings.memory_dir is not None
    backend = LocalBackend(settings, FakeEmbedder())
    backend.sync()
    backend.close()
    evict(settings.memory_dir / name)
    plan = operations.planned_sync(settings)
    assert (plan.removed, plan.added, plan.moved) == (0, 0, 0)
    assert [w.file for w in plan.warnings] == [str(settings.memory_dir / name)]


@EVICT
@TIER
def test_a_first_sync_is_degraded_too(settings: Settings, evict: Callable[[Path], None], name: str) -> None:
    """An index that has never seen the file says what it lacks, rather than that it is whole."""
    assert settings.memory_dir is not None
    evict(settings.memory_dir / name)
    backend = LocalBackend(settings, FakeEmbedder())
    first = backend.sync()
    backend.close()
    assert first.status == "degraded"
    assert [w.file for w in first.warnings] == [str(settings.memory_dir / name)]
    assert operations.status(settings).index.stale


@EVICT
@TIER
def test_a_sync_says_why_and_what_to_do(settings: Settings, evict: Callable[[Path], None], name: str) -> None:
    """The reason that every other command gives stands in its warnings too."""
    assert settings.memory_dir is not None
    backend = LocalBackend(settings, FakeEmbedder())
    backend.sync()
    evict(settings.memory_dir / name)
    again = backend.sync()
    backend.close()
    assert any("is not on this machine" in w.message for w in again.warnings)


@EVICT
@TIER
def test_listings_and_moves_end_in_the_same_sentence(settings: Settings, evict: Callable[[Path], None], name: str) -> None:
    """`entries` and `compact` refuse with code 3, `status` warns, `archive verify` finds damage; nothing is written."""
    assert settings.memory_dir is not None
    path = settings.memory_dir / name
    evict(path)
    before = tree(settings.memory_dir)
    for action in (operations.entries, lambda s: operations.compact(s, force=True), lambda s: operations.compact(s, only_plan=True)):
        with pytest.raises(EvictedFileError) as caught:
            action(settings)
        assert str(path) in str(caught.value)
        assert caught.value.exit_code == 3
    (pool,) = operations.status(settings).pools
    assert [w.file for w in pool.warnings if "is not on this machine" in w.message] == [str(path)]
    proof = operations.verify_archive(settings)
    assert getattr(proof, "status", None) == ("damaged" if "archive" in name else "verified")
    assert tree(settings.memory_dir) == before
