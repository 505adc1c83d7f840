"""Literal matches with the real model: what stands in an entry letter for letter is first, in any script and form."""

# ruff: noqa: RUF001 - letters of other scripts that look like Latin ones are the point
from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from unicodedata import normalize

import pytest

from indexer.embedder import Embedder
from models.pool import Pool
from models.query import RecallRequest
from models.results import RecallResult
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, log

ENGLISH = (
    "Cooling a kiln in steps avoids cracks; evicting a cache in steps avoids stampedes.",
    "Boats waiting for one tide crowd the lock; jobs waiting for one minute crowd the host.",
    "Two writers fork a ledger when each trusts its own clock.",
    "A river delta spreads silt the way a queue spreads load.",
    "Ticket OPS-411 was closed after the gateway had been restarted.",
    "Version v1.2.4 of the scheduler drops the old flag.",
    "The helper case_snake_name lives in bar/foo.py beside its tests.",
    "Beekeepers mark the queen so that she is found at once.",
    "Old clocks lose a minute a week and nobody minds.",
    "A choir tunes to its quietest singer.",
    "Moss grows where the wall stays wet; bugs stay where nobody tests.",
    "Bakers keep a part of the dough for the next day.",
    "A map that shows everything shows nothing.",
    "Pruning in winter makes the tree bear in summer.",
    "The loom's warp is set up once, its weft is thrown all day.",
    "Lighthouses tell where not to go.",
    "Compost needs turning, and so do old decisions.",
    "A knot that slips under load was never a knot.",
    "The gardener waters the roots and not the leaves.",
    "Glaciers write down what the weather was.",
)
CHINESE = ("潮汐决定船只何时过闸。", "蜜蜂用舞蹈告诉同伴方向。", "旧钟每天都要上弦。")
WANTED = "深夜的窑炉慢慢冷却，缓存也应当逐步淘汰。"
JAPANESE = ("潮の満ち引きで船が集まる。", "古い時計は毎日巻く。", "蜂は踊りで方向を伝える。")
KOREAN = ("배들은 밀물을 기다린다.", "벌은 춤으로 방향을 알린다.", "낡은 시계는 매일 감는다.")
THAI = ("เรือรอน้ำขึ้น", "ผึ้งเต้นบอกทิศทาง", "นาฬิกาเก่าต้องไขลานทุกวัน")
CYRILLIC = ("Лодки ждут прилива у шлюза.", "Пчёлы танцем указывают дорогу.", "Старые часы заводят каждый день.")
GREEK = ("Οι βάρκες περιμένουν την παλίρροια.", "Οι μέλισσες χορεύουν.", "Το ρολόι κουρδίζεται κάθε μέρα.")
ARABIC = ("القوارب تنتظر المد.", "النحل يرقص ليدل على الطريق.", "الساعة القديمة تحتاج إلى لف.")
HINDI = ("नावें ज्वार की प्रतीक्षा करती हैं।", "मधुमक्खियाँ नाचती हैं।", "पुरानी घड़ी में रोज़ चाबी भरते हैं।")
EMOJI = ("A note with 🐙 in it.", "A note with 👍 in it.", "A note with 🇸🇪 in it.", "A note with 👩 in it.", "A note with ♥ in it.")

LITERAL = [
    ("The incident OPS-412 came back.", "OPS-412", ()),
    ("The incident OPS-412 came back.", "what happened in ops-412?", ()),
    ("Rename snake_case_name everywhere.", "snake_case_name", ()),
    ("Look at foo/bar.py first.", "foo/bar.py", ()),
    ("Version v1.2.3 broke it.", "v1.2.3", ("Version v1.3.2 broke it.", "Version v3.2.1 broke it.")),
    ("Templates of C++ are expanded late.", "C++ templates", ()),
    ("See https://example.org/a/b?c=d#e for more.", "https://example.org/a/b?c=d#e", ("See https://example.org/b/a?d=c#e for more.",)),
    ("Write to who@example.org soon.", "who@example.org", ("Write to me@example.com soon.",)),
    ("The words slow cooling stand here.", '"slow cooling"', ("The words cooling slow stand here.", "Slow words, later cooling stand.")),
    ("The words slow cooling stand here.", "“slow cooling”", ("The words cooling slow stand here.",)),
    ("It was 25°C in the shop.", "25°C", ("It was 52°C in the shop.",)),
    ("Release ©2031 by the guild.", "2031", ()),
    ("The fox 🦊 came back.", "🦊", EMOJI),
    ("A note with ❤️ in it.", "❤️", EMOJI[:4]),
    ("A note with 👍🏽 in it.", "👍🏽", EMOJI),
    ("A note with 🇪🇸 in it.", "🇪🇸", EMOJI),
    ("A note with 👨\u200d👩\u200d👧 in it.", "👨\u200d👩\u200d👧", EMOJI),
    (WANTED, "窑炉慢慢冷却", CHINESE),
    ("潮汐决定船只何时过闸。", "船只", (*CHINESE[1:], "只有一条船。")),
    ("窯はゆっくり冷ます。", "ゆっくり冷ます", JAPANESE),
    ("ガマはカタカナで書く。", "ｶﾞﾏ", JAPANESE),  # halfwidth
    ("가마는 천천히 식힌다.", "천천히", KOREAN),
    ("เตาเผาเย็นลงอย่างช้าๆ", "เย็นลง", THAI),
    ("Печь остывает медленно.", "печь остывает", CYRILLIC),
    ("Το καμίνι κρυώνει αργά.", "ΚΑΜΊΝΙ", GREEK),
    ("الفرن يبرد ببطء.", "الفرن", ARABIC),
    ("الفُرْنُ يبرد ببطء.", "الفُرْنُ", ARABIC),
    ("भट्ठी धीरे ठंडी होती है।", "भट्ठी", HINDI),
    (normalize("NFD", "Café brûlé in the square."), "Café brûlé", ()),
    ("Café brûlé in the square.", normalize("NFD", "Café brûlé"), ()),
    ("Café brûlé in the square.", "CAFE BRULE", ()),
    ("ｆｕｌｌ ｗｉｄｔｈ ２０２６", "full width 2026", ()),
    ("full width 2026", "ｆｕｌｌ ｗｉｄｔｈ", ()),
    ("Die Größe der Straße.", "grösse strasse", ()),
    ("Die Größe der Straße.", "GROSSE", ()),
    ("Işık ve ışıldak.", "ışıldak", ()),
    ("The office in İstanbul.", "İstanbul", ()),
    ("The office in İstanbul.", "Istanbul", ()),
    ("The o\ufb03ce \ufb01re.", "office fire", ()),
    ("The road to Téhéran.", "Teheran", ()),
    ("The vétéran speaks.", "veteran", ()),
    ("It’s the potter’s wheel.", "potter's wheel", ()),
    ("It's the potter's wheel.", "potter’s wheel", ()),
]


def opened(folder: Path, model: Embedder, texts: Sequence[str], dates: Sequence[str] = ()) -> Bench:
    """An index with the real model over dreams of these texts, on *dates* as far as they go."""
    (folder / "memory").mkdir()
    bench = Bench(folder / "state", [Pool("default", folder / "memory", None)], embedder=model)
    days = [*dates, *["2026-05-20"] * len(texts)]
    write_tiers(bench.pools[0], HEADER + log(*(dream(t, d, n) for n, (t, d) in enumerate(zip(texts, days, strict=False)))), b"")
    bench.sync()
    return bench


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Iterator[Bench]:
    """All literal entries and distractors in one index."""
    texts = dict.fromkeys([*ENGLISH, *CHINESE, *(text for text, _, others in LITERAL for text in (text, *others))])
    bench = opened(tmp_path_factory.mktemp("literal"), model, list(texts))
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Iterator[Bench]:
    """English and some of several scripts; three entries are older than the rest, each of a time of its own."""
    texts = [*ENGLISH, *CHINESE, WANTED, *JAPANESE[:1], *CYRILLIC, *GREEK[:1], *ARABIC[:1], "A note with 🦊 in it."]
    bench = opened(tmp_path_factory.mktemp("mixed"), model, texts, ["2025-12-30", "2026-04-11", "2026-05-04"])
    yield bench
    bench.close()


def dream(text: str, date: str, number: int) -> bytes:
    """A dream with that connection."""
    return f"### [dream] Spark {number} ({date} 02:10)\n**Connection:** {text}\n".encode()


def ask(bench: Bench, query: str, limit: int = 10) -> RecallResult:
    """The answer in the default mode."""
    return bench.search.recall(RecallRequest(query=query, limit=limit, explain=True))


@pytest.mark.parametrize(("text", "query", "others"), LITERAL)
def test_what_stands_there_is_first(full: Bench, text: str, query: str, others: Sequence[str]) -> None:
    """Among distractors of its own script and of others, the entry with the very words wins, byte for byte as it was."""
    hits = ask(full, query).hits
    found = [h.text or "" for h in hits]
    same = [t for t in found if query in t]
    assert text in found[0] or (same and query in found[0])
    best = next(h for h in hits if text in (h.text or ""))
    assert best.explanation is not None
    assert best.explanation.words > 0.3
    assert all(h.score < best.score for h in hits if any(other in (h.text or "") for other in others))


def test_chinese_is_found_among_chinese(mixed: Bench) -> None:
    """A part of a sentence finds it first, well ahead of other sentences in the script, which the model cannot read."""
    result = ask(mixed, "窑炉慢慢冷却")
    assert (result.mode, result.degraded) == ("lexical", "the model cannot read this question")
    assert WANTED in (result.hits[0].text or "")
    assert result.hits[0].score > 0.5
    assert result.hits[1].score < 0.3


@pytest.mark.parametrize(
    "query",
    ["🐳", "🐳🐳🐳", "🇯🇵", "👩🏿\u200d🚀", "龙凤麒麟", "ドラゴン", "รถไฟ", "용과 봉황", "Дракон летит", "δράκος", "تنين", "דרקון", "अजगर"],
)
def test_what_stands_nowhere_scores_low(mixed: Bench, query: str) -> None:
    """A question in emoji or a script that the model never learned finds nothing near, and the answer says why."""
    result = ask(mixed, query)
    assert result.degraded == "the model cannot read this question"
    assert len(result.hits) == 10
    assert max(h.score for h in result.hits) < 0.3


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what did I dream on 4 May 2026", 2),
        ("2026-05-04", 2),
        ("May 4th", 2),
        ("what did I dream in April", 1),
        ("dreams of April 2026", 1),
        ("anything in 2025?", 0),
        ("anything of 2025-12-31", 0),
        ("what came on 6 May 2026", 2),  # two days later is nearer than weeks
    ],
)
def test_dates_are_found(mixed: Bench, query: str, first: int) -> None:
    """A question that names a day, a month or a year finds the entries of those days first."""
    assert ENGLISH[first] in (ask(mixed, query).hits[0].text or "")


def test_since_a_year_prefers_all_that_came_since(mixed: Bench) -> None:
    """Of entries that are as near otherwise, those of that year and of later ones come first."""
    assert (ask(mixed, "what came since 2025").hits[0].date or "") >= "2025"
