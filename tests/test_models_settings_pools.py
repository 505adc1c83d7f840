"""Which pools the settings name, and what a settings file that cannot be read says."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.errors import InvalidSettingError, NoMemoryFolderError, UnknownPoolError, UnreadableFileError
from models.pool import Pool
from models.settings import load_settings
from tests.test_models_settings import ONE_POOL, TWO_POOLS, load


def test_without_a_memory_folder_there_is_no_pool(tmp_path: Path) -> None:
    """The error says how to name one."""
    with pytest.raises(NoMemoryFolderError) as caught:
        load(tmp_path).all_pools()
    assert str(caught.value) == (
        "No memory folder is configured: run `coldspark init`, or name one with --memory-dir or COLDSPARK_MEMORY_DIR."
    )


def test_a_folder_named_alone_is_the_default_pool(tmp_path: Path) -> None:
    """It has the set file names, and the knowledge folder beside it where there is one."""
    settings = load(tmp_path, 'active_file = "a.md"\narchive_file = "b.md"', {"memory_dir": str(tmp_path / "memory")})
    assert settings.all_pools() == [Pool("default", tmp_path / "memory", None, "a.md", "b.md")]
    (tmp_path / "knowledge").mkdir()
    assert settings.pool(None) == Pool("default", tmp_path / "memory", tmp_path / "knowledge", "a.md", "b.md")


def test_several_pools_are_found_by_name_in_any_case(tmp_path: Path) -> None:
    """Each has its own folders."""
    settings = load(tmp_path, TWO_POOLS)
    assert settings.all_pools() == [Pool("notes", Path("/m")), Pool("work", Path("/w"), Path("/k"))]
    assert settings.pool("WORK").memory_dir == Path("/w")
    assert load(tmp_path, ONE_POOL).pool(None).name == "notes"


def test_an_unknown_pool_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    """The error lists what there is."""
    with pytest.raises(UnknownPoolError) as caught:
        load(tmp_path, TWO_POOLS).pool("home")
    assert str(caught.value) == "There is no pool named 'home': the settings list notes, work."


def test_one_of_several_pools_must_be_named(tmp_path: Path) -> None:
    """Without a name the error asks for one, and does not speak of a pool that is named nothing."""
    with pytest.raises(UnknownPoolError) as caught:
        load(tmp_path, TWO_POOLS).pool(None)
    assert "named ''" not in str(caught.value)
    assert "notes, work" in str(caught.value)


def test_a_folder_named_nearer_replaces_the_list(tmp_path: Path) -> None:
    """A flag or variable chooses one folder; a listed one keeps its name and knowledge folder."""
    assert load(tmp_path, TWO_POOLS, {"memory_dir": "/w"}).all_pools() == [Pool("work", Path("/w"), Path("/k"))]
    assert load(tmp_path, TWO_POOLS, memory_dir="/other").all_pools() == [Pool("default", Path("/other"))]


@pytest.mark.parametrize("pools", [ONE_POOL, ONE_POOL + 'knowledge_dir = "/old"\n'], ids=["none listed", "another listed"])
def test_a_knowledge_folder_named_nearer_is_the_listed_pools(tmp_path: Path, pools: str) -> None:
    """A flag for the knowledge folder is never ignored: the survival log in it says what is alive."""
    assert load(tmp_path, pools, {"knowledge_dir": "/k"}).pool(None).knowledge_dir == Path("/k")


def test_a_memory_folder_cannot_stand_beside_the_list(tmp_path: Path) -> None:
    """In one and the same file it is unclear which of them is meant."""
    with pytest.raises(InvalidSettingError) as caught:
        load(tmp_path, 'memory_dir = "/x"\n' + ONE_POOL)
    assert str(caught.value) == (
        f"The setting memory_dir ({tmp_path / 'settings.toml'}) cannot be used:"
        " it cannot stand beside [[pools]]; list the folder as a pool. Correct it there and run again."
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"dream_days =\n", "it is not valid TOML: Invalid value (at line 1, column 13)"),
        (b"a = 1\na = 2\n", "it is not valid TOML: Cannot overwrite a value (at line 2, column 6)"),
        (b"model = '\xff'", "it is not valid TOML: 'utf-8' codec can't decode byte 0xff in position 9: invalid start byte"),
    ],
)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, data: bytes, reason: str) -> None:
    """The reason has the line, and nothing else is read in the file's place."""
    path = tmp_path / "settings.toml"
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError) as caught:
        load_settings({}, path, {})
    assert str(caught.value) == f"The settings file {path} cannot be read ({reason}): make it readable and run again."


@pytest.mark.parametrize("by_flag", [True, False])
def test_a_file_that_was_named_must_exist(tmp_path: Path, *, by_flag: bool) -> None:
    """A missing default file is fine; one that --config or COLDSPARK_CONFIG names is not."""
    path = tmp_path / "gone.toml"
    with pytest.raises(UnreadableFileError) as caught:
        load_settings({}, path if by_flag else None, {} if by_flag else {"COLDSPARK_CONFIG": str(path)})
    assert str(caught.value) == f"The settings file {path} cannot be read (it does not exist): make it readable and run again."


def test_a_folder_in_the_files_place_is_named(tmp_path: Path) -> None:
    """The system's reason is passed on."""
    with pytest.raises(UnreadableFileError, match=r"cannot be read \(Is a directory\)"):
        load_settings({}, tmp_path, {})


def test_an_empty_variable_names_no_file(tmp_path: Path) -> None:
    """An empty COLDSPARK_CONFIG counts as unset, as every other variable does."""
    assert load_settings({}, None, {"COLDSPARK_CONFIG": "", "XDG_CONFIG_HOME": str(tmp_path)}).dream_days == 30
