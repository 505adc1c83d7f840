"""An index in this process, and what a test wants to know of it: used by the tests of `service.local`."""

from __future__ import annotations

from pathlib import Path

from indexer.generations import current_generation
from models.pool import TIERS
from models.query import RecallRequest
from models.results import IndexResult, RecallResult
from models.settings import Settings
from service.local import LocalBackend
from tests.fakes import FakeEmbedder


def built(settings: Settings) -> Path:
    """An index, synced and closed well; answers its generation's folder."""
    backend = LocalBackend(settings, FakeEmbedder())
    backend.sync()
    backend.close()
    return generation(settings)


def generation(settings: Settings) -> Path:
    """The folder of the generation in use."""
    found = current_generation(settings.state_dir)
    assert found is not None
    return found


def ask(backend: LocalBackend, query: str = "kiln cooling") -> RecallResult:
    """One question."""
    return backend.recall(RecallRequest(query=query, limit=3))


def check_whole(backend: LocalBackend, settings: Settings, result: IndexResult, entries: int) -> None:
    """Asserts that the index is as a clean build, and answers in full."""
    fresh = LocalBackend(settings.model_copy(update={"state_dir": settings.state_dir.with_name("fresh")}), FakeEmbedder())
    fresh.sync()
    ours, theirs = backend.index(), fresh.index()
    assert {tier: ours.store.ids(tier) for tier in TIERS} == {tier: theirs.store.ids(tier) for tier in TIERS}
    assert {key: (k.version, k.tier, k.view) for key, k in ours.catalog.known().items()} == {
        key: (k.version, k.tier, k.view) for key, k in theirs.catalog.known().items()
    }
    fresh.close()
    assert (result.status, result.degraded, result.entries.active + result.entries.archive) == ("ok", None, entries)
    found = ask(backend)
    assert (found.degraded, found.mode, found.hits[0].title) == (None, "hybrid", "Kiln cooling and staged eviction")
    assert not backend.has_changed()
