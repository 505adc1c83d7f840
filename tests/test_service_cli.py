"""The command line as installed: results on stdout, nothing heavy imported, dry runs that touch nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from models.pool import Pool
from service import __version__
from service.cli import cli
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.service_support import run, tree

COMMANDS = sorted(cli.commands)
VERBS = {
    " ".join(names): command
    for name, top in cli.commands.items()
    for names, command in ([((name, sub), c) for sub, c in top.commands.items()] if isinstance(top, click.Group) else [((name,), top)])
}
HEAVY = ("torch", "sentence_transformers", "transformers", "chromadb", "fastapi", "uvicorn", "starlette")


@pytest.fixture
def folders(pool: Pool) -> list[str]:
    """The flags that name a pool of four entries, with a clock."""
    pool.active.write_bytes(HEADER + log(KILN, TIDE, ledger("absorb -- fits"), delve("Fresh", "2026-05-19")))
    return [f"--memory-dir={pool.memory_dir}", f"--state-dir={pool.memory_dir.parent / 'state'}"]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command runs at noon of one day."""
    monkeypatch.setenv("COLDSPARK_NOW", "2026-05-20T12:00:00Z")


def test_commands_are_the_documented_ones() -> None:
    """The first release's verbs are there."""
    assert set(COMMANDS) >= {"init", "status", "entries", "compact", "index", "recall", "show", "related", "serve"}


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_command_explains_itself(name: str) -> None:
    """Each command has a sentence, and so has each of its options that is not plain by its name."""
    command = VERBS[name]
    assert command.help
    text = command.get_help(click.Context(command, info_name=name))
    for flag in ("--memory-dir", "--knowledge-dir", "--state-dir", "--config", "--json", "--verbose"):
        assert flag in text


def test_version_and_help_are_results() -> None:
    """Both go to stdout and end well."""
    version, shown = run("--version"), run("-h")
    assert (version.returncode, version.stdout, version.stderr) == (0, f"coldspark, version {__version__}\n", "")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert all(name in shown.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["status"], ["compact", "--dry-run", "--force", "--explain"], ["compact", "--force"], ["show", "ffff"]]
)
def test_light_commands_import_nothing_heavy(folders: list[str], arguments: list[str]) -> None:
    """What needs no index loads no model, no vector store and no web framework."""
    script = (
        "import sys\nfrom service import cli\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        f"sys.exit(', '.join(name for name in {HEAVY!r} if name in sys.modules) or 0)\n"
    )
    more = [] if "--help" in arguments else folders
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments, *more], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stderr


def test_entries_lists_what_the_files_hold(folders: list[str], pool: Pool) -> None:
    """Each listed entry's bytes stand in the file where it says."""
    done = run("entries", "--json", *folders)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert set(found) >= {"entries", "warnings"}
    first = found["entries"][0]
    shown = {name: first[name] for name in ("pool", "tier", "kind", "tags", "title", "date", "time", "verdict", "signal", "warnings")}
    assert shown == {
        "pool": "default", "tier": "active", "kind": "dream", "tags": ["dream", "ext-signal"], "title": "Kiln cooling and staged eviction",
        "date": "2026-05-04", "time": "02:10", "verdict": None, "signal": "resonant", "warnings": [],
    }  # fmt: skip
    data = pool.active.read_bytes()
    assert [data[e["byte_start"] : e["byte_end"]] for e in found["entries"]] == [
        text.rstrip(b"\n") for text in (KILN, TIDE, ledger("absorb -- fits"), delve("Fresh", "2026-05-19"))
    ]
    assert data.split(b"\n")[first["line_start"] - 1].startswith(b"### [dream]")
    assert first["fields"]["Sources"] == "pottery manual x queue design"


def test_text_forms_name_every_entry(folders: list[str]) -> None:
    """Without --json there is one line an entry, and a table of the tiers."""
    listed = run("entries", *folders).stdout
    assert "4 entries\n" in listed
    assert all(title in listed for title in ("Kiln cooling", "Tide tables", "Ledger forks", "Fresh"))
    shown = run("status", *folders).stdout
    assert "active" in shown
    assert "nothing has been indexed yet; run `coldspark index`" in shown


def test_status_as_json(folders: list[str], pool: Pool) -> None:
    """The sizes are the files' own; there is no index and no service yet."""
    found = json.loads(run("status", "--json", *folders).stdout)
    assert found["pools"][0]["active"] == {
        "lines": pool.active.read_bytes().count(b"\n"), "bytes": len(pool.active.read_bytes()), "entries": 4, "over_target": False,
    }  # fmt: skip
    assert (found["index"]["entries"], found["service"]) == ({"active": 0, "archive": 0}, None)


def test_show_by_id_and_by_its_beginning(folders: list[str]) -> None:
    """An entry is printed verbatim, with its place behind it."""
    entry = json.loads(run("entries", "--json", *folders).stdout)["entries"][0]
    for name in (entry["id"], entry["id"][:6]):
        done = run("show", name, *folders)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(KILN.decode())
        assert f"{entry['file']}:{entry['line_start']}-{entry['line_end']}" in done.stdout
    assert json.loads(run("show", entry["id"], "--json", *folders).stdout)["text"] == KILN.decode().rstrip("\n")


def test_plan_is_what_the_run_does(folders: list[str], pool: Pool) -> None:
    """`compact --dry-run` names the decisions that the real run then carries out; a rerun has nothing to do."""
    before = log(KILN, TIDE)
    planned = json.loads(run("compact", "--dry-run", "--force", "--json", *folders).stdout)
    done = json.loads(run("compact", "--force", "--json", *folders).stdout)
    again = json.loads(run("compact", "--force", "--json", *folders).stdout)
    assert [planned["status"], done["status"], again["status"]] == ["planned", "compacted", "nothing-to-archive"]
    assert planned["decisions"] == done["decisions"]
    assert (planned["archived"], done["archived"], done["kept"]) == (2, 2, 2)
    assert pool.archive.read_bytes().endswith(before)
    assert KILN not in pool.active.read_bytes()


def test_explanation_names_the_rule_of_every_entry(folders: list[str]) -> None:
    """Each entry has its rule, age and action on one line."""
    lines = run("compact", "--dry-run", "--force", "--explain", *folders).stdout.splitlines()
    assert [line.split()[:4] for line in lines[1:5]] == [
        ["archive", "7", "spent-signal", "16d"], ["archive", "7", "spent-signal", "15d"], ["keep", "4", "absorbed", "13d"],
        ["keep", "3", "recent", "1d"],
    ]  # fmt: skip


def test_today_decides_the_ages(folders: list[str]) -> None:
    """The flag overrides the clock."""
    found = json.loads(run("compact", "--dry-run", "--force", "--json", "--today", "2026-05-06", *folders).stdout)
    assert (found["today"], found["archived"]) == ("2026-05-06", 0)
    assert [d["age_days"] for d in found["decisions"]][:2] == [2, 1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["compact", "--dry-run"], ["compact", "--dry-run", "--force", "--explain"], ["index", "--dry-run"], ["status"], ["entries"],
        ["recall", "x"],
    ],
)  # fmt: skip
def test_looking_changes_nothing(folders: list[str], pool: Pool, arguments: list[str]) -> None:
    """A dry run leaves every name, byte, time and mode of the tree as it was, and makes no folder."""
    before = tree(pool.memory_dir.parent)
    done = run(*arguments, *folders)
    after = tree(pool.memory_dir.parent)
    if arguments[0] == "recall":  # takes the lock before it can say that there is no index
        assert done.returncode == 3
        after = {path: facts for path, facts in after.items() if Path(path).parts[-1] not in ("state", "index.lock")}
    else:
        assert done.returncode == 0
    assert after == before


def test_planned_sync_counts_what_is_new(folders: list[str]) -> None:
    """`index --dry-run` says what a sync would add."""
    found = json.loads(run("index", "--dry-run", "--json", *folders).stdout)
    assert (found["status"], found["entries"], found["added"], found["moved"]) == ("planned", {"active": 4, "archive": 0}, 4, 0)


def test_init_writes_settings_that_work(folders: list[str], pool: Pool, tmp_path: Path) -> None:
    """The written file serves the other commands, and names both folders."""
    path = tmp_path / "new" / "settings.toml"
    done = run("init", f"--write-to={path}", folders[0], f"--knowledge-dir={pool.knowledge_dir}")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(run("status", "--json", f"--config={path}").stdout)
    assert found["pools"][0]["memory_dir"] == str(pool.memory_dir)
    assert found["pools"][0]["knowledge_dir"] == str(pool.knowledge_dir)


def test_init_never_overwrites(folders: list[str], tmp_path: Path) -> None:
    """An existing file, empty or not, is kept and named."""
    path = tmp_path / "settings.toml"
    path.write_bytes(b"# mine\n")
    done = run("init", f"--write-to={path}", folders[0])
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"coldspark: The settings file {path} exists already and is left as it is: edit it, or name another with --write-to.\n"
    )
    assert path.read_bytes() == b"# mine\n"


def test_odd_folder_names_survive_init(tmp_path: Path) -> None:
    """Quotes, backslashes and umlauts in a path are written as TOML reads them."""
    memory = tmp_path / 'R&D "lab" \\ it\'s 100%dönè'
    memory.mkdir()
    (memory / "dream-sparks.md").write_bytes(KILN)
    path = tmp_path / "settings.toml"
    assert run("init", f"--write-to={path}", f"--memory-dir={memory}").returncode == 0
    found = json.loads(run("status", "--json", f"--config={path}").stdout)
    assert found["pools"][0]["memory_dir"] == str(memory)


def test_plain_locale_prints_every_script(folders: list[str], pool: Pool) -> None:
    """Under a C locale without Python's help, text of any script is printed as UTF-8."""
    pool.active.write_bytes("### [delve] 深夜 🦊 Cafe\u0301 (2026-05-19)\n**Source:** 窑炉\n".encode())
    for arguments in (["entries"], ["entries", "--json"]):
        done = run(*arguments, *folders, LC_ALL="POSIX", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
        assert (done.returncode, done.stderr) == (0, "")
        assert "深夜 🦊 Cafe\u0301" in done.stdout


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_stamps_are_never_shifted(folders: list[str], pool: Pool, zone: str) -> None:
    """Dates and times are those of the headings, wherever the command runs."""
    pool.active.write_bytes(log(*(delve("Late", stamp) for stamp in ("2026-05-04 23:30", "2026-05-05 00:10", "2026-05-04"))))
    found = json.loads(run("entries", "--json", *folders, TZ=zone).stdout)["entries"]
    assert [(e["date"], e["time"]) for e in found] == [("2026-05-04", "23:30"), ("2026-05-05", "00:10"), ("2026-05-04", None)]


@pytest.mark.parametrize("active", [b"", b"# Sparks\n\nprose\nprose\n", bytes(range(256)) * 16], ids=["empty", "prose", "noise"])
def test_file_without_entries_is_left_alone(folders: list[str], pool: Pool, active: bytes) -> None:
    """A compaction that finds no entries says so and writes nothing, however it is forced."""
    pool.active.write_bytes(active)
    before = tree(pool.memory_dir)
    done = run("compact", "--force", "--json", *folders)
    assert (done.returncode, done.stderr) == (0, "")
    assert (json.loads(done.stdout)["status"], json.loads(done.stdout)["kept"]) == ("nothing-to-archive", 0)
    assert tree(pool.memory_dir) == before
