"""How commands fail: the documented exit code, one sentence on stderr, nothing on stdout, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from models.pool import Pool
from tests.samples import KILN, TIDE, log
from tests.service_support import run

LONG = "a" * 100_000
# Runs many command lines in one process, since most of a short command's time is Python's own start.
_MANY = """
import contextlib, io, json, os, sys
from service.cli import main
for name, arguments, environment in json.load(sys.stdin):
    out, err, code = io.StringIO(), io.StringIO(), None
    sys.argv = ["coldspark", *arguments]
    os.environ.update(environment)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            code = repr(error)
    for key in environment:
        del os.environ[key]
    print(json.dumps([name, [code, out.getvalue(), err.getvalue()]]))
"""


class Case(NamedTuple):
    """A command line, its exit code, and what its sentence says behind "coldspark: ", if that is ours to choose.

    {memory} and {folder} stand for the test's own folders; a command without --memory-dir gets it, unless `bare`.
    """

    arguments: list[str]
    code: int
    says: str = ""
    environment: dict[str, str] = {}  # noqa: RUF012 - never changed
    bare: bool = False


NOWHERE = "The memory folder {folder}/nowhere does not exist: check the path, or name another folder with --memory-dir."
UNCONFIGURED = "No memory folder is configured: run `coldspark init`, or name one with --memory-dir or COLDSPARK_MEMORY_DIR."
NO_INDEX = "There is no index at {folder}/state/index: run `coldspark index`."

CASES = {
    # usage
    "no command": Case([], 2, bare=True),
    "unknown command": Case(["bogus"], 2, bare=True),
    "unknown flag": Case(["status", "--bogus"], 2),
    "no query": Case(["recall"], 2),
    "empty query": Case(["recall", ""], 2, "query: it is blank; write what the spark was about."),
    "blank query": Case(["recall", "   "], 2, "query: it is blank; write what the spark was about."),
    "invisible query": Case(["recall", "\u200b"], 2, "query: it is blank; write what the spark was about."),
    "huge query": Case(["recall", LONG], 2),
    "query of broken bytes": Case(["recall", "\udcff"], 2, "query: it holds a lone surrogate, which is no character."),
    "limit 0": Case(["recall", "x", "--limit", "0"], 2, "limit: Input should be greater than or equal to 1."),
    "limit -5": Case(["recall", "x", "--limit", "-5"], 2, "limit: Input should be greater than or equal to 1."),
    "limit abc": Case(["recall", "x", "--limit", "abc"], 2),
    "unknown mode": Case(["recall", "x", "--mode", "fuzzy"], 2),
    "unknown tier": Case(["recall", "x", "--tier", "cold"], 2, "tier: Input should be 'active' or 'archive'."),
    "unknown verdict": Case(["recall", "x", "--verdict", "maybe"], 2),
    "no date": Case(["recall", "x", "--since", "yesterday"], 2),
    "no day of the calendar": Case(["recall", "x", "--since", "2026-02-30"], 2),
    "empty date": Case(["recall", "x", "--since", ""], 2),
    "since after until": Case(["recall", "x", "--since", "2026-05-05", "--until", "2026-05-04"], 2, "filters: since lies after until."),
    "empty source": Case(["recall", "x", "--source", ""], 2),  # as blank as the next one
    "blank source": Case(["recall", "x", "--source", " "], 2),
    "related limit 0": Case(["related", "ffff", "--limit", "0"], 2),
    "today of month 13": Case(["compact", "--today", "2026-13-01"], 2),
    # bad or missing input
    "no memory folder": Case(["status"], 3, UNCONFIGURED, bare=True),
    "no memory folder for compact": Case(["compact"], 3, UNCONFIGURED, bare=True),
    "no memory folder for recall": Case(["recall", "x"], 3, UNCONFIGURED, bare=True),
    "no memory folder for init": Case(["init", "--write-to", "{folder}/s.toml"], 3, UNCONFIGURED, bare=True),
    "status of nowhere": Case(["status", "--memory-dir={folder}/nowhere"], 3, NOWHERE),
    "entries of nowhere": Case(["entries", "--memory-dir={folder}/nowhere"], 3, NOWHERE),
    "compact nowhere": Case(["compact", "--memory-dir={folder}/nowhere"], 3, NOWHERE),
    "index nowhere": Case(["index", "--memory-dir={folder}/nowhere"], 3, NOWHERE),
    "dry index of nowhere": Case(["index", "--dry-run", "--memory-dir={folder}/nowhere"], 3, NOWHERE),
    "init of nowhere": Case(["init", "--write-to={folder}/s.toml", "--memory-dir={folder}/nowhere"], 3, NOWHERE),
    "folder that is a file": Case(["status", "--memory-dir={memory}/dream-sparks.md"], 3),
    "no active file": Case(["entries", "--memory-dir={folder}/empty"], 3),
    "no active file to compact": Case(["compact", "--force", "--memory-dir={folder}/empty"], 3),
    "active file that is a folder": Case(["compact", "--force", "--memory-dir={folder}/odd"], 3),
    "unknown id": Case(["show", "ffff"], 3, "No entry has the id 'ffff': ids are listed by `coldspark entries` and by every recall."),
    "empty id": Case(["show", ""], 3, "No entry has the id '': ids are listed by `coldspark entries` and by every recall."),
    "path for an id": Case(["show", "../../etc/hosts"], 3),
    "unknown pool": Case(["entries", "--pool", "nope"], 3, "There is no pool named 'nope': the settings list default."),
    "unknown pool to compact": Case(["compact", "--pool", "nope"], 3, "There is no pool named 'nope': the settings list default."),
    "recall without an index": Case(["recall", "x"], 3, NO_INDEX),
    "related without an index": Case(["related", "ffff"], 3, NO_INDEX),
    "no settings file": Case(["status", "--config={folder}/none.toml"], 3),
    "settings that are no TOML": Case(["status", "--config={folder}/broken.toml"], 3),
    "settings that are no text": Case(["status", "--config={folder}/noise.toml"], 3),
    "settings file that is a folder": Case(["status", "--config={folder}"], 3),
    "unknown setting": Case(
        ["status", "--config={folder}/unknown.toml"],
        3,
        "The setting dream_dayz ({folder}/unknown.toml) cannot be used: there is no setting of this name. Correct it there and run again.",
    ),
    "bad setting": Case(["status"], 3, environment={"COLDSPARK_DREAM_DAYS": "x"}),
    "bad time zone": Case(["status"], 3, environment={"COLDSPARK_TIMEZONE": "Mars/Olympus"}),
    "bad clock": Case(["status"], 3, environment={"COLDSPARK_NOW": "never"}),
    "state folder that is a file": Case(["index", "--state-dir={memory}/dream-sparks.md"], 3),
    "state folder under a file": Case(["recall", "x", "--state-dir={memory}/dream-sparks.md/x"], 3),
    "settings under a file": Case(["init", "--write-to={memory}/dream-sparks.md/x/y.toml"], 5),
    "settings in a folder's place": Case(["init", "--write-to={folder}"], 3),
    "port out of range": Case(["serve", "--port", "99999"], 3),
    "open address without a token": Case(
        ["serve", "--port", "0", "--host", "0.0.0.0"],  # noqa: S104 - refused
        3,
        "The setting host (0.0.0.0) cannot be used: an address other than loopback needs a token; set COLDSPARK_TOKEN."
        " Correct it there and run again.",
    ),
    "address of another machine": Case(["serve", "--port", "0", "--host", "192.0.2.1"], 3, environment={"COLDSPARK_TOKEN": "t"}),
    "address that is no address": Case(["serve", "--port", "0", "--host", "no such host"], 3, environment={"COLDSPARK_TOKEN": "t"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory folder among broken things."""
    folder = tmp_path_factory.mktemp("failures")
    (folder / "memory").mkdir()
    (folder / "memory" / "dream-sparks.md").write_bytes(log(KILN, TIDE))
    (folder / "empty").mkdir()
    (folder / "odd" / "dream-sparks.md").mkdir(parents=True)
    (folder / "broken.toml").write_bytes(b"dream_days = \n")
    (folder / "noise.toml").write_bytes(b"\xff")
    (folder / "unknown.toml").write_bytes(b"dream_dayz = 3\n")
    return folder


@pytest.fixture(scope="module")
def ends(folder: Path) -> dict[str, tuple[int | str, str, str]]:
    """Exit code, stdout and stderr of every case."""
    home = folder / "home"
    home.mkdir()
    flags = {"--memory-dir": folder / "memory", "--state-dir": folder / "state"}
    todo = []
    for name, case in CASES.items():
        arguments = [a.replace("{folder}", str(folder)).replace("{memory}", str(folder / "memory")) for a in case.arguments]
        if not case.bare:
            given = [a.partition("=")[0] for a in arguments]
            arguments += [f"{flag}={place}" for flag, place in flags.items() if flag not in given]
        todo.append((name, arguments, case.environment))
    done = subprocess.run(
        [sys.executable, "-c", _MANY], input=json.dumps(todo), capture_output=True, text=True, check=True, timeout=120,
        cwd=Path(__file__).parents[1], env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    return {name: tuple(end) for name, end in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", CASES)
def test_failure_is_one_sentence(name: str, folder: Path, ends: dict[str, tuple[int | str, str, str]]) -> None:
    """The exit code is the documented one, and stderr says in one line what happened (or how the command is used)."""
    case = CASES[name]
    code, out, err = ends[name]
    assert (code, out) == (case.code, "")
    assert "Traceback" not in err
    assert err.strip()
    if not err.startswith("Usage:"):
        assert err.startswith("coldspark: ")
        assert len(err.splitlines()) == 1
    if case.says:
        assert err == f"coldspark: {case.says.replace('{folder}', str(folder))}\n"


def test_hard_link_is_refused_with_5(pool: Pool) -> None:
    """What a replacement could lose is refused before anything is written."""
    pool.active.write_bytes(log(KILN, TIDE))
    (pool.memory_dir / "second name").hardlink_to(pool.active)
    done = run("compact", "--force", "--today", "2026-06-30", f"--memory-dir={pool.memory_dir}")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(f"coldspark: Refused to touch {pool.active}: it has 2 hard links")


def test_closed_pipe_is_no_traceback(pool: Pool) -> None:
    """A reader that has seen enough ends the command quietly."""
    pool.active.write_bytes(log(*(KILN for _ in range(2_000))))
    script = f"{Path(sys.executable).with_name('coldspark')} entries --json --memory-dir={pool.memory_dir} | head -c 10 >/dev/null"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
