"""Settings come from flags, environment, file and defaults, in that order, and a bad one is named with its place."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from models.errors import InvalidSettingError
from models.settings import Settings, load_settings, settings_file

ONE_POOL = '[[pools]]\nname = "notes"\nmemory_dir = "/m"\n'
TWO_POOLS = ONE_POOL + '[[pools]]\nname = "work"\nmemory_dir = "/w"\nknowledge_dir = "/k"\n'


def load(tmp_path: Path, toml: str | None = None, flags: dict[str, Any] | None = None, **environ: str) -> Settings:
    """Settings from a file of this text, these flags and COLDSPARK_ variables."""
    path = tmp_path / "settings.toml"
    if toml is not None:
        path.write_text(toml, encoding="utf-8")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "none"), **{f"COLDSPARK_{k.upper()}": v for k, v in environ.items()}}
    return load_settings(flags or {}, path if toml is not None else None, env)


@pytest.mark.parametrize(
    ("flag", "env", "file", "days"),
    [
        (1, "2", "dream_days = 3", 1),
        (0, "2", "dream_days = 3", 0),  # zero is a value
        (None, "2", "dream_days = 3", 2),
        (None, "", "dream_days = 3", 3),  # an empty variable is none
        (None, "", "", 30),
    ],
)
def test_the_nearest_source_wins(tmp_path: Path, flag: int | None, env: str, file: str, days: int) -> None:
    """A flag goes before the environment, that before the file, that before the default."""
    assert load(tmp_path, file, {"dream_days": flag}, dream_days=env).dream_days == days


def test_defaults_stand_without_any_source(tmp_path: Path) -> None:
    """The documented values hold when nothing is set."""
    s = load(tmp_path)
    assert (s.target_lines, s.target_bytes, s.limit_bytes, s.fit_to_limit) == (500, 204_800, 262_144, False)
    assert (s.recent_days, s.signal_days, s.swarm_days, s.park_days, s.dream_days) == (7, 7, 14, 30, 30)
    assert (s.release_grace_days, s.resonant_days, s.target_tokens, s.timezone, s.host) == (None, None, None, "UTC", "127.0.0.1")


def test_every_setting_but_the_pools_has_an_environment_variable(tmp_path: Path) -> None:
    """Each name is read in capitals behind the prefix."""
    given: dict[str, Any] = {
        "memory_dir": "/m", "knowledge_dir": "/k", "state_dir": "/s", "active_file": "a.md", "archive_file": "b.md", "target_lines": "1",
        "target_bytes": "2", "target_tokens": "3", "limit_bytes": "4", "fit_to_limit": "true", "recent_days": "5",
        "release_grace_days": "6", "signal_days": "70", "swarm_days": "8", "park_days": "9", "dream_days": "10", "resonant_days": "11",
        "timezone": "Asia/Tokyo", "now": "2026-05-04T10:00:00Z", "model": "m", "chroma_url": "http://c", "host": "::1", "port": "12",
        "token": "t", "background": "true", "idle_minutes": "0.5",
    }  # fmt: skip
    read = load(tmp_path, **given)
    default = load(tmp_path)
    assert set(given) == set(Settings.model_fields) - {"pools"}
    assert [n for n in given if getattr(read, n) == getattr(default, n)] == []


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("dream_days", "x", "input should be a valid integer, unable to parse string as an integer"),
        ("park_days", "-1", "input should be greater than or equal to 0"),
        ("swarm_days", "36501", "input should be less than or equal to 36500"),
        ("signal_days", "1.5", "input should be a valid integer, unable to parse string as an integer"),
        ("fit_to_limit", "maybe", "input should be a valid boolean, unable to interpret input"),
        ("port", "70000", "input should be less than or equal to 65535"),
        ("timezone", "Mars/Base", "value error, 'Mars/Base' is no time zone"),
        ("timezone", "../UTC", "value error, '../UTC' is no time zone"),
        ("timezone", "Europe", "value error, 'Europe' is no time zone"),  # a folder of the database
        ("now", "yesterday", "invalid isoformat string: 'yesterday'"),
    ],
)
def test_a_bad_value_names_the_setting_and_where_it_was_set(tmp_path: Path, name: str, value: str, problem: str) -> None:
    """Flag, variable and file are told apart."""
    sources: list[tuple[str, dict[str, Any]]] = [
        (f"the environment variable COLDSPARK_{name.upper()}", {name: value}),
        (f"--{name.replace('_', '-')}", {"flags": {name: value}}),
        (str(tmp_path / "settings.toml"), {"toml": f"{name} = '{value}'"}),
    ]
    for source, arguments in sources:
        with pytest.raises(InvalidSettingError) as caught:
            load(tmp_path, **arguments)
        shown = str(caught.value).replace("value error, ", "")
        wanted = problem.replace("value error, ", "")
        assert shown == f"The setting {name} ({source}) cannot be used: {wanted}. Correct it there and run again."


@pytest.mark.parametrize(
    ("toml", "name"),
    [
        ("dreem_days = 4", "dreem_days"),
        ("[dream]\ndays = 4", "dream"),
        ('[[pools]]\nname = "a"\nmemory_dir = "/m"\nmemory = "/n"', "pools.0.memory"),
    ],
)
def test_an_unknown_key_is_refused(tmp_path: Path, toml: str, name: str) -> None:
    """A misspelt key is named, never ignored."""
    with pytest.raises(InvalidSettingError) as caught:
        load(tmp_path, toml)
    where = tmp_path / "settings.toml"
    assert str(caught.value) == (
        f"The setting {name} ({where}) cannot be used: there is no setting of this name. Correct it there and run again."
    )


@pytest.mark.parametrize(
    "toml",
    [
        "dream_days = true",  # a switch is no number of days
        'memory_dir = ""',  # would mean the present folder
        'memory_dir = "~no-such-user/memory"',
        'active_file = "sparks.md"\narchive_file = "sparks.md"',  # one file cannot be both tiers
        'active_file = ""',
        'active_file = "../sparks.md"',
        'archive_file = "a/b.md"',
        "now = 20260504",  # a number is no moment
        ONE_POOL + ONE_POOL,  # two pools of one name
        ONE_POOL + ONE_POOL.replace("notes", "Notes"),
        ONE_POOL + ONE_POOL.replace("notes", "other"),  # or of one folder
        ONE_POOL.replace("notes", ""),
        '[[pools]]\nname = "a"',
        "pools = 'x'",
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(tmp_path: Path, toml: str) -> None:
    """What would lead to the wrong files or days is an error that names the file."""
    with pytest.raises(InvalidSettingError, match=r"^The setting \S+ \(.*settings\.toml\) cannot be used: "):
        load(tmp_path, toml)


@pytest.mark.parametrize("value", ["20260504", "1777852800", "1777852800.5"])
def test_the_clock_is_set_by_a_date_and_never_by_a_count_of_seconds(tmp_path: Path, value: str) -> None:
    """COLDSPARK_NOW is ISO 8601: digits alone are that date or an error, not a moment of 1970."""
    try:
        today = load(tmp_path, now=value).today()
    except InvalidSettingError:
        return
    assert (value, today) == ("20260504", dt.date(2026, 5, 4))


@pytest.mark.parametrize(
    ("now", "zone", "clock", "today"),
    [
        ("2026-05-04T23:30:00Z", "UTC", "2026-05-04T23:30:00+00:00", "2026-05-04"),
        ("2026-05-04T23:30:00Z", "Asia/Tokyo", "2026-05-05T08:30:00+09:00", "2026-05-05"),
        ("2026-05-05T01:30:00+00:00", "America/Los_Angeles", "2026-05-04T18:30:00-07:00", "2026-05-04"),
        ("2026-05-04T23:30:00", "Asia/Tokyo", "2026-05-04T23:30:00+09:00", "2026-05-04"),  # without a zone: the set one
        ("2026-05-04", "America/Los_Angeles", "2026-05-04T00:00:00-07:00", "2026-05-04"),
    ],
)
def test_the_clock_stands_in_the_set_time_zone(tmp_path: Path, now: str, zone: str, clock: str, today: str) -> None:
    """`now` overrides the clock, and the day is that of the time zone."""
    settings = load(tmp_path, now=now, timezone=zone)
    assert (settings.clock().isoformat(), settings.today().isoformat()) == (clock, today)


def test_without_an_override_the_clock_is_the_machines() -> None:
    """The present moment has the set zone's offset."""
    before = dt.datetime.now(dt.UTC)
    assert before <= Settings(timezone="Asia/Tokyo").clock() <= dt.datetime.now(dt.UTC)
    assert Settings(timezone="Asia/Tokyo").clock().utcoffset() == dt.timedelta(hours=9)


def test_a_home_folder_is_expanded_and_links_are_kept(tmp_path: Path) -> None:
    """`~` is the home folder; relative folders become absolute; a link stays a link."""
    (tmp_path / "link").symlink_to(tmp_path)
    read = load(tmp_path, flags={"memory_dir": "~/memory", "knowledge_dir": "a/../b", "state_dir": str(tmp_path / "link")})
    assert (read.memory_dir, read.knowledge_dir, read.state_dir) == (Path.home() / "memory", Path.cwd() / "b", tmp_path / "link")


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"COLDSPARK_CONFIG": "/c/own.toml", "XDG_CONFIG_HOME": "/x"}, "/c/own.toml"),
        ({"COLDSPARK_CONFIG": "", "XDG_CONFIG_HOME": "/x"}, "/x/coldspark/settings.toml"),
        ({"XDG_CONFIG_HOME": ""}, "~/.config/coldspark/settings.toml"),
        ({}, "~/.config/coldspark/settings.toml"),
    ],
)
def test_the_settings_file_lies_where_the_environment_says(environ: dict[str, str], path: str) -> None:
    """COLDSPARK_CONFIG goes before XDG_CONFIG_HOME, that before ~/.config."""
    assert settings_file(environ) == Path(path).expanduser()


def test_the_state_folder_follows_the_environment_that_is_handed_in(tmp_path: Path) -> None:
    """XDG_STATE_HOME decides unless `state_dir` is set."""
    assert load_settings({}, None, {"XDG_STATE_HOME": str(tmp_path)}).state_dir == tmp_path / "coldspark"
