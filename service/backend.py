"""The index as front ends see it: in this process, or behind the running service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from models.query import RecallRequest, TextForm
from models.results import EntryResult, IndexResult, RecallResult

Progress = Callable[[int, int], None]


def silent(_done: int, _all: int) -> None:
    """A progress that shows nothing."""


class Backend(Protocol):
    """What can be done with an index, wherever it is."""

    def sync(self, *, rebuild: bool = False, progress: Progress = silent) -> IndexResult:
        """Brings the index in line with the Markdown."""

    def recall(self, request: RecallRequest) -> RecallResult:
        """Entries that answer a question."""

    def entry(self, entry_id: str, pool: str | None = None) -> EntryResult:
        """One entry, by id or the beginning of one."""

    def related(self, entry_id: str, limit: int, text: TextForm) -> RecallResult:
        """Entries near one entry in meaning."""
