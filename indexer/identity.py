"""What an index was made with: one that was made with anything else is built anew."""

from __future__ import annotations

from indexer.catalog import FORMAT
from indexer.embedder import Embedder
from indexer.passages import PASSAGE_RULES


def identity(embedder: Embedder, chroma_url: str | None) -> dict[str, str]:
    """What an index must have been made with to be of use. Raises ModelMissingError."""
    return {"format": FORMAT, "passage_rules": str(PASSAGE_RULES), "model": embedder.fingerprint, "chroma_url": chroma_url or ""}


def differences(wanted: dict[str, str], found: dict[str, str | None]) -> str | None:
    """In words, what an index was made with that is not so now."""
    differing = [name for name, value in wanted.items() if found.get(name) != value]
    return f"the index was made with another {' and '.join(differing)}" if differing else None
