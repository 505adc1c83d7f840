"""The survival log and the session logs: in doubt an entry counts as alive."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from compactor.survival import read_knowledge
from models.entry import Entry
from models.errors import BrokenSurvivalLogError, MissingFileError, UnreadableFileError
from models.log import parse

HEADER = "# Survival log\n\n| ID | Date | Anchor | Status |\n|----|------|--------|--------|\n"


def titled(title: str, tags: str = "[dream]") -> Entry:
    """An entry of this title."""
    return parse(f"### {tags} {title} (2026-01-01)\n".encode()).entries[0]


def survival(pool_knowledge: Path, text: str | bytes) -> Path:
    """Writes the survival log; answers the knowledge folder."""
    (pool_knowledge / "sparks").mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    (pool_knowledge / "sparks" / "survival-log.md").write_bytes(data)
    return pool_knowledge


@pytest.mark.parametrize(
    ("anchor", "title", "alive"),
    [
        ("Kiln cooling", "Kiln cooling", True),
        ("Kiln cooling", "Kiln cooling and staged eviction", True),
        ("Kiln cooling and staged eviction, revisited", "Kiln cooling and staged eviction", True),
        ("kiln COOLING", "KILN cooling and more", True),
        ("[dream] Kiln cooling (2026-01-01)", "Kiln cooling", True),
        ("Kiln  cooling", "Kiln\u00a0cooling", True),  # odd spaces
        ("STRASSE", "Straße und Kiln", True),
        ("Kiln cooling", "Tide tables", False),
        ("Kiln cooling", "Kiln", True),
        ("Pipes \\| and more", "Pipes | and more", True),
        ("Café brûlé", unicodedata.normalize("NFD", "Café brûlé"), True),  # one word, two spellings
    ],
)
def test_titles_match_by_containment_either_way(tmp_path: Path, anchor: str, title: str, alive: bool) -> None:  # noqa: FBT001 - a table's column
    """An alive anchor keeps every title that contains it or is contained in it, in any case."""
    knowledge = read_knowledge(survival(tmp_path, f"{HEADER}| 1 | 2026-01-01 | {anchor} | alive |\n"))
    assert knowledge.is_alive(titled(title)) is alive
    assert knowledge.warnings == ()


@pytest.mark.parametrize(
    ("status", "alive"),
    [
        ("alive", True), ("ALIVE", True), ("**alive**", True), ("_alive_", True), ("`alive`", True), ("alive?", True),
        ("alive (again)", True), ("still alive", True), ("dead", False), ("expired", False), ("shipped", False), ("", False),
    ],
)  # fmt: skip
def test_only_the_status_alive_keeps(tmp_path: Path, status: str, alive: bool) -> None:  # noqa: FBT001 - a table's column
    """The word alive in the status cell, however it is set in type, counts; other outcomes do not."""
    knowledge = read_knowledge(survival(tmp_path, f"{HEADER}| 1 | 2026-01-01 | Kiln cooling | {status} |\n"))
    assert knowledge.is_alive(titled("Kiln cooling")) is alive


def test_an_entry_without_a_title_is_not_everyones_twin(tmp_path: Path) -> None:
    """An empty title is contained in everything, and so says nothing."""
    knowledge = read_knowledge(survival(tmp_path, f"{HEADER}| 1 | 2026-01-01 | Kiln | alive |\n"))
    assert not knowledge.is_alive(parse(b"### [dream] (2026-01-01)\n").entries[0])


def test_an_alive_row_without_an_anchor_is_warned_about(tmp_path: Path) -> None:
    """An empty anchor would keep everything; it keeps nothing and is reported with its line."""
    folder = survival(tmp_path, f"{HEADER}| 1 | 2026-01-01 |  | alive |\n")
    knowledge = read_knowledge(folder)
    assert not knowledge.is_alive(titled("Kiln"))
    path = folder / "sparks" / "survival-log.md"
    assert knowledge.warnings == ((path, 5, "an alive row names no anchor, so it keeps no entry"),)


@pytest.mark.parametrize(
    "row",
    ["| 1 | 2026-01-01 | Kiln cooling | alive | more |", "| Kiln cooling | alive |", "| 1 | 2026-01-01 | Kiln cooling | and | alive |"],
    ids=["too-wide", "too-narrow", "unescaped-pipe"],
)
def test_a_row_of_the_wrong_width_counts_as_alive(tmp_path: Path, row: str) -> None:
    """A row whose cells cannot be told apart keeps every entry that it may mean, and is reported."""
    knowledge = read_knowledge(survival(tmp_path, f"{HEADER}{row}\n"))
    assert knowledge.is_alive(titled("Kiln cooling"))
    assert not knowledge.is_alive(titled("Tide tables"))
    cells = row.count("|") - 1
    assert [(line, message) for _, line, message in knowledge.warnings] == [
        (5, f"the row has {cells} cells where the table has 4; every entry it may mean counts as alive")
    ]


def test_a_wrong_width_row_that_is_not_alive_says_nothing(tmp_path: Path) -> None:
    """A broken row without the word alive keeps nothing."""
    knowledge = read_knowledge(survival(tmp_path, f"{HEADER}| 1 | Kiln cooling | dead |\n"))
    assert not knowledge.is_alive(titled("Kiln cooling"))


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    """The order, case and emphasis of the header's names do not matter."""
    text = "| **STATUS** | Note | _anchor_ |\n|:--|:-:|--:|\n| alive | x | Kiln cooling |\n| dead | alive | Tide tables |\n"
    knowledge = read_knowledge(survival(tmp_path, text))
    assert knowledge.is_alive(titled("Kiln cooling"))
    assert not knowledge.is_alive(titled("Tide tables"))


@pytest.mark.parametrize(
    "data",
    [
        (HEADER + "| 1 | x | Kiln cooling | alive |").encode(),
        (HEADER + "| 1 | x | Kiln cooling | alive |\n").replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + (HEADER + "| 1 | x | Kiln cooling | alive |\n").encode(),
        b"\xef\xbb\xbf" + (HEADER.removeprefix("# Survival log\n\n") + "| 1 | x | Kiln cooling | alive |\n").encode(),
        (HEADER + "| 1 | \u2028 | Kiln cooling | alive |\n").encode(),
        HEADER.encode() + b"| 1 | \xff\x00 | Kiln cooling | alive |\n",
        (HEADER.replace("| ID", "  | ID") + "   | 1 | x | Kiln cooling | alive |   \n").encode(),
        (HEADER + "| 1 | x | Kiln cooling | alive\n").encode(),
    ],
    ids=["no-newline", "crlf", "bom", "bom-before-the-table", "line-separator", "bad-bytes", "indented", "no-last-pipe"],
)
def test_odd_bytes_do_not_hide_a_row(tmp_path: Path, data: bytes) -> None:
    """Line ends, byte order marks, separators and undecodable bytes leave the table readable."""
    knowledge = read_knowledge(survival(tmp_path, data))
    assert knowledge.is_alive(titled("Kiln cooling"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("| 1 | 2026-01-01 | Kiln cooling | alive |\n", 1),
        ("# Log\n\n| Anchor | Outcome |\n|---|---|\n| Kiln | x |\n", 3),
        ("| Status | Outcome |\n|---|---|\n| alive | x |\n", 1),
    ],
    ids=["no-header", "no-status", "no-anchor"],
)
def test_a_table_without_the_columns_is_refused(tmp_path: Path, text: str, line: int) -> None:
    """Without an Anchor and a Status column nobody can say what is alive."""
    folder = survival(tmp_path, text)
    with pytest.raises(BrokenSurvivalLogError) as caught:
        read_knowledge(folder)
    assert str(caught.value) == (
        f"The survival log {folder / 'sparks' / 'survival-log.md'} cannot be trusted"
        f" (line {line}: the table has no Anchor and Status columns), so nothing was moved: mend that line and run again."
    )


def test_a_table_without_outer_pipes_is_not_overlooked(tmp_path: Path) -> None:
    """A table without leading pipes, which Markdown allows, is read or refused, but never taken for no table at all."""
    folder = survival(tmp_path, "Anchor | Status\n--- | ---\nKiln cooling | alive\n")
    try:
        knowledge = read_knowledge(folder)
    except BrokenSurvivalLogError:
        return
    assert knowledge.is_alive(titled("Kiln cooling"))


def test_a_second_table_with_its_own_header_is_read_by_it(tmp_path: Path) -> None:
    """A later table may order its columns anew."""
    text = f"{HEADER}| 1 | x | Tide tables | dead |\n\n## Older\n\n| Status | Anchor |\n|---|---|\n| alive | Kiln cooling |\n"
    knowledge = read_knowledge(survival(tmp_path, text))
    assert knowledge.is_alive(titled("Kiln cooling"))
    assert not knowledge.is_alive(titled("Tide tables"))


@pytest.mark.parametrize("text", ["", "# Survival log\n\nNothing yet.\n", HEADER], ids=["empty", "prose", "no-rows"])
def test_a_log_without_rows_keeps_nothing(tmp_path: Path, text: str) -> None:
    """A log that has no rows yet is no failure."""
    assert not read_knowledge(survival(tmp_path, text)).is_alive(titled("Kiln cooling"))


def test_a_missing_folder_says_nothing_and_is_warned_about(tmp_path: Path) -> None:
    """Without a knowledge folder no entry counts as alive, and the run says so."""
    for folder in (None, tmp_path / "nowhere"):
        knowledge = read_knowledge(folder)
        assert not knowledge.is_alive(titled("Kiln cooling"))
        assert [w[2] for w in knowledge.warnings] == ["there is no survival log here, so no entry counts as alive"]


def test_a_missing_log_says_nothing(tmp_path: Path) -> None:
    """A sparks folder with session logs alone still tells which signals were consumed."""
    (tmp_path / "sparks").mkdir()
    (tmp_path / "sparks" / "2026-01-02-session.md").write_text("We took up kiln  COOLING today.")
    knowledge = read_knowledge(tmp_path)
    assert not knowledge.is_alive(titled("Kiln cooling"))
    assert knowledge.is_consumed(titled("Kiln cooling", "[ext-signal]"))
    assert not knowledge.is_consumed(titled("Tide tables", "[ext-signal]"))


@pytest.mark.parametrize("name", ["survival-log.md", "2026-01-02-session.md"])
def test_an_unreadable_log_is_refused(tmp_path: Path, name: str) -> None:
    """A log that is there but cannot be read stops the run: nothing may be archived blindly."""
    path = tmp_path / "sparks" / name
    path.mkdir(parents=True)
    with pytest.raises(UnreadableFileError) as caught:
        read_knowledge(tmp_path)
    what = "survival log" if name == "survival-log.md" else "session log"
    assert str(caught.value) == f"The {what} {path} cannot be read (Is a directory): make it readable and run again."


def test_a_survival_log_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    """A dangling symbolic link is not the same as no log."""
    (tmp_path / "sparks").mkdir()
    (tmp_path / "sparks" / "survival-log.md").symlink_to(tmp_path / "gone.md")
    with pytest.raises(MissingFileError):
        read_knowledge(tmp_path)


def test_a_sparks_folder_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    """A file or dangling link in the folder's place is not the same as no folder."""
    (tmp_path / "sparks").symlink_to(tmp_path / "unmounted")
    with pytest.raises((MissingFileError, UnreadableFileError)):
        read_knowledge(tmp_path)


def test_the_survival_log_is_no_session_log(tmp_path: Path) -> None:
    """A dead anchor in the survival log does not make a signal consumed."""
    knowledge = read_knowledge(survival(tmp_path, f"{HEADER}| 1 | x | Kiln cooling | dead |\n"))
    assert not knowledge.is_consumed(titled("Kiln cooling", "[ext-signal]"))
