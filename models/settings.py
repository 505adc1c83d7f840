"""Settings: one name each, from flags, then the environment, then the settings file, then the defaults below."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from models.errors import InvalidSettingError, NoHomeError, NoMemoryFolderError, UnknownPoolError, UnreadableFileError
from models.pool import Pool

PREFIX = "COLDSPARK_"
READER_LIMIT_BYTES = 256 * 1024
"""Where Claude Code's Read tool stops."""
READER_LIMIT_TOKENS = 25_000
BUNDLED_MODEL = "all-MiniLM-L6-v2"


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone") from error
    return name


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("it is a switch where a number is wanted")  # noqa: TRY004 - pydantic reports ValueErrors
    return value


def _moment(value: Any) -> Any:
    """Only ISO 8601: pydantic alone would also read numbers as seconds since 1970."""
    if isinstance(value, str):
        return dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime) or value is None:
        return value
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    raise ValueError("it is no moment in ISO 8601")


def _folder(value: Any) -> Any:
    """An absolute path; symbolic links stay as they are."""
    if not str(value).strip():
        raise ValueError("it is empty")
    try:
        return Path(os.path.abspath(Path(value).expanduser()))  # noqa: PTH100 - resolve() would follow links
    except (RuntimeError, TypeError) as error:
        raise ValueError(str(error)) from error


def _file_name(value: str) -> str:
    if not value.strip() or Path(value).name != value or "\0" in value:
        raise ValueError("it must be the bare name of a file in the memory folder")
    return value


Days = Annotated[int, BeforeValidator(_no_switch), Field(ge=0, le=36_500)]
Size = Annotated[int, BeforeValidator(_no_switch), Field(ge=0)]
Folder = Annotated[Path, BeforeValidator(_folder)]
FileName = Annotated[str, AfterValidator(_file_name)]


class PoolSettings(BaseModel):
    """One `[[pools]]` table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    memory_dir: Folder
    knowledge_dir: Folder | None = None


class Settings(BaseModel):
    """Everything that can be set. Windows are whole days, sizes bytes unless named otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_dir: Folder | None = None
    knowledge_dir: Folder | None = None
    state_dir: Folder = Field(default_factory=lambda: _xdg("XDG_STATE_HOME", ".local/state"))
    pools: tuple[PoolSettings, ...] = ()
    active_file: FileName = "dream-sparks.md"
    archive_file: FileName = Field(default="dream-sparks-archive.md", validate_default=True)

    target_lines: Size = 500
    target_bytes: Size = 200 * 1024
    target_tokens: Size | None = None
    limit_bytes: Size = READER_LIMIT_BYTES
    fit_to_limit: bool = False
    recent_days: Days = 7
    release_grace_days: Days | None = None
    signal_days: Days = 7
    swarm_days: Days = 14
    park_days: Days = 30
    dream_days: Days = 30
    resonant_days: Days | None = None
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    now: Annotated[dt.datetime | None, BeforeValidator(_moment)] = None

    model: str = BUNDLED_MODEL
    chroma_url: str | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, BeforeValidator(_no_switch), Field(ge=0, le=65_535)] = 8765
    token: Annotated[str, Field(pattern=r"^[\x21-\x7e]+$")] | None = Field(default=None, repr=False)
    background: bool = False
    idle_minutes: Annotated[float, BeforeValidator(_no_switch), Field(ge=0, le=527_040, allow_inf_nan=False)] = 15

    @field_validator("archive_file")
    @classmethod
    def _two_files(cls, value: str, info: ValidationInfo) -> str:
        if value == info.data.get("active_file"):
            raise ValueError("it names the same file as active_file; the tiers are two files")
        return value

    @field_validator("pools")
    @classmethod
    def _distinct(cls, pools: tuple[PoolSettings, ...]) -> tuple[PoolSettings, ...]:
        names = [p.name.casefold() for p in pools]
        folders = [p.memory_dir for p in pools]
        if len(set(names)) < len(names) or len(set(folders)) < len(folders):
            raise ValueError("two pools have the same name or the same memory folder")
        return pools

    def clock(self) -> dt.datetime:
        """The present moment in the set time zone; the setting `now` overrides it."""
        zone = ZoneInfo(self.timezone)
        if self.now is None:
            return dt.datetime.now(zone)
        return self.now.replace(tzinfo=zone) if self.now.tzinfo is None else self.now.astimezone(zone)

    def today(self) -> dt.date:
        """The calendar day in the set time zone."""
        return self.clock().date()

    def all_pools(self) -> list[Pool]:
        """Every configured pool; a memory folder named alone replaces the list.

        Raises NoMemoryFolderError when there is none.
        """
        if self.memory_dir is not None:
            listed = next((p for p in self.pools if p.memory_dir == self.memory_dir), None)
            name = listed.name if listed else "default"
            knowledge = self.knowledge_dir or (listed.knowledge_dir if listed else None)
            return [self._pool(name, self.memory_dir, knowledge)]
        if not self.pools:
            raise NoMemoryFolderError
        if self.knowledge_dir is not None and len(self.pools) > 1:
            problem = "there are several pools, and each has its own; name the memory folder too"
            raise InvalidSettingError("knowledge_dir", str(self.knowledge_dir), problem)
        return [self._pool(p.name, p.memory_dir, self.knowledge_dir or p.knowledge_dir) for p in self.pools]

    def pool(self, name: str | None) -> Pool:
        """The pool of this name, or the only one. Raises UnknownPoolError."""
        pools = self.all_pools()
        found = [p for p in pools if name is None or p.name.casefold() == name.casefold()]
        if len(found) != 1:
            raise UnknownPoolError(name, [p.name for p in pools])
        return found[0]

    def _pool(self, name: str, memory: Path, knowledge: Path | None) -> Pool:
        beside = memory.parent / "knowledge"
        return Pool(name, memory, knowledge or (beside if beside.is_dir() else None), self.active_file, self.archive_file)


def settings_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the settings file lies unless --config says otherwise. Raises NoHomeError."""
    if named := environ.get("COLDSPARK_CONFIG"):
        return Path(named)
    return _xdg("XDG_CONFIG_HOME", ".config", environ) / "settings.toml"


def load_settings(flags: Mapping[str, Any], config: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Merges flags, environment and file; the error names the setting and where it was set.

    Flags that are None count as not given. Raises InvalidSettingError, UnreadableFileError.
    """
    path, values = _from_file(config, environ)
    layers = [
        ("--{}", {k: v for k, v in flags.items() if v is not None}, True),
        ("the environment variable " + PREFIX + "{}", _from_environment(environ), False),
        (f"{path}", values, False),
    ]
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source, values, is_flag in layers:
        for name, value in values.items():
            if name not in merged:
                shown = name.replace("_", "-") if is_flag else name.upper()
                merged[name], origin[name] = value, source.format(shown)
    if "state_dir" not in merged:
        merged["state_dir"] = _xdg("XDG_STATE_HOME", ".local/state", environ)
    if "memory_dir" in merged and "pools" in merged and origin["memory_dir"] == origin["pools"]:
        raise InvalidSettingError("memory_dir", origin["memory_dir"], "it cannot stand beside [[pools]]; list the folder as a pool")
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise _first_problem(error, origin) from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found = {name: environ.get(PREFIX + name.upper()) for name in Settings.model_fields if name != "pools"}
    return {name: value for name, value in found.items() if value}


def _from_file(config: Path | None, environ: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    """The settings file and what it says; one that nobody named may be missing."""
    try:
        path = config or settings_file(environ)
    except NoHomeError:
        return None, {}
    try:
        return path, _parsed(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        if config is not None or environ.get("COLDSPARK_CONFIG"):
            raise UnreadableFileError(path, "settings file", "it does not exist") from None
        return path, {}
    except OSError as error:
        raise UnreadableFileError(path, "settings file", error.strerror or str(error)) from error
    except ValueError as error:
        raise UnreadableFileError(path, "settings file", f"it is not valid TOML: {error}") from error


def _parsed(text: str) -> dict[str, Any]:
    import tomllib  # only who has a settings file pays for it

    return tomllib.loads(text)


def _first_problem(error: ValidationError, origin: Mapping[str, str]) -> InvalidSettingError:
    first = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    known = first["type"] != "extra_forbidden"
    problem = first["msg"].removeprefix("Value error, ") if known else "there is no setting of this name"
    return InvalidSettingError(name, origin.get(str(first["loc"][0]), "settings"), problem[:1].lower() + problem[1:])


def _xdg(variable: str, default: str, environ: Mapping[str, str] = os.environ) -> Path:
    if base := environ.get(variable):
        return Path(base) / "coldspark"
    try:
        return Path.home() / default / "coldspark"
    except RuntimeError:
        raise NoHomeError(variable) from None
