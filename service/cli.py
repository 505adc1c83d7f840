"""The command line: results on stdout, all else on stderr. Commands import what they need when they run."""

from __future__ import annotations

import datetime as dt
import functools
import gc
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from service import __version__

if TYPE_CHECKING:
    from models.query import RecallRequest
    from models.settings import Settings

_FOLDERS = (
    click.option("--memory-dir", type=click.Path(), help="Folder of dream-sparks.md and its archive."),
    click.option("--knowledge-dir", type=click.Path(), help="Folder of sparks/survival-log.md and the session logs."),
    click.option("--state-dir", type=click.Path(), help="Folder of the index."),
    click.option("--config", type=click.Path(), help="Settings file."),
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option("-v", "--verbose", is_flag=True, help="Say more on stderr."),
)
_WINDOWS = (
    "target_lines", "target_bytes", "target_tokens", "limit_bytes", "recent_days", "release_grace_days", "signal_days", "swarm_days",
    "park_days", "dream_days", "resonant_days", "timezone",
)  # fmt: skip
_FORMS = click.Choice(["full", "preview", "none"])


class Call:
    """What the common options say, for one command."""

    def __init__(self, *, as_json: bool, verbose: bool, config: str | None, **flags: Any) -> None:
        self.as_json = as_json
        self.verbose = verbose
        self._config = config
        self._flags = flags

    def with_flags(self, flags: dict[str, Any]) -> Call:
        """The same call with flags of its command's own."""
        return Call(as_json=self.as_json, verbose=self.verbose, config=self._config, **self._flags, **flags)

    def settings(self, **more: Any) -> Settings:
        """The settings that hold for this command; *more* are its own flags."""
        from pathlib import Path

        from models.settings import load_settings

        return load_settings({**self._flags, **more}, Path(self._config) if self._config else None)

    def show(self, result: Any, table: str) -> None:
        """Prints *result*: as JSON, or with the function of this name in `service.render`."""
        if self.as_json:
            _print(result.model_dump_json() + "\n")
            return
        from service import render

        _print(getattr(render, table)(result))


def _print(text: str) -> None:
    """Writes to standard output. Raises OutputError, but for a reader that has seen enough."""
    from models.errors import OutputError

    try:
        click.echo(text, nl=False)
    except OSError as error:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - what is still buffered must not fail once more at the end
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise OutputError(error.strerror or str(error)) from error


def _day(_context: click.Context, _parameter: click.Parameter, value: str | None) -> dt.date | None:
    """A calendar day; click's own DateTime would import half of `locale` for it."""
    try:
        return dt.date.fromisoformat(value) if value else None
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no date; write YYYY-MM-DD.") from error


def setting_flags(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds a flag for each of these settings, and hands those that are given over to the Call."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(call: Call, **given: Any) -> None:
            command(call.with_flags({name: given.pop(name) for name in names}), **given)

        for name in reversed(names):
            wrapped = click.option(f"--{name.replace('_', '-')}", help=f"The setting {name}.")(wrapped)
        return wrapped

    return add


def common(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the common options and hands them over as a Call."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        shared = {name: given.pop(name) for name in ("memory_dir", "knowledge_dir", "state_dir", "config", "as_json", "verbose")}
        command(Call(**shared), **given)

    for option in reversed(_FOLDERS):
        wrapped = option(wrapped)
    return wrapped


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="coldspark")
def cli() -> None:
    """Keeps a spark protocol memory usable for ever: sparks move to a cold tier verbatim, and stay within recall."""


@cli.command()
@common
@click.option("--write-to", type=click.Path(), help="Where to write the settings file.")
def init(call: Call, write_to: str | None) -> None:
    """Write a commented settings file for a memory folder; never overwrites one."""
    from pathlib import Path

    from models.settings import settings_file
    from service import operations

    path = Path(write_to) if write_to else settings_file()
    settings = call.settings()
    pool = settings.pool(None)
    operations.check_readable(settings)
    operations.starter_settings(path, pool.memory_dir, pool.knowledge_dir)
    click.echo(f"Wrote {path}.\nNext: coldspark status, then coldspark index.")


@cli.command()
@common
def status(call: Call) -> None:
    """Show both tiers beside their limits, and how fresh the index is."""
    from service import operations

    call.show(operations.status(call.settings()), "status")


@cli.command()
@common
@click.option("--pool", help="Only this pool.")
def entries(call: Call, pool: str | None) -> None:
    """List every entry of both tiers, straight from the Markdown."""
    from service import operations

    call.show(operations.entries(call.settings(), pool), "entries")


@cli.command()
@common
@click.option("--dry-run", is_flag=True, help="Say what would move; write nothing.")
@click.option("--explain", is_flag=True, help="Show the rule that decided on every entry.")
@click.option("--today", callback=_day, metavar="YYYY-MM-DD", help="Count ages up to this day.")
@click.option("--force", is_flag=True, help="Compact even while the active file is under its targets.")
@click.option("--fit-to-limit/--no-fit-to-limit", default=None, help="Shorten the windows until the file is under the reader's limit.")
@click.option("--pool", help="Only this pool.")
@setting_flags(*_WINDOWS)
def compact(
    call: Call, *, dry_run: bool, explain: bool, today: dt.date | None, force: bool, fit_to_limit: bool | None, pool: str | None
) -> None:
    """Move entries to the archive by verdict, verbatim."""
    from service import operations

    settings = call.settings(fit_to_limit=fit_to_limit)
    result = operations.compact(settings, pool=pool, today=today, force=force, only_plan=dry_run)
    call.show(result, "explained_compaction" if explain else "compaction")


@cli.group()
def archive() -> None:
    """Prove the archive, or split it into quarterly files."""


@archive.command()
@common
@click.option("--pool", help="Only this pool.")
def verify(call: Call, pool: str | None) -> None:
    """Check every batch against its checksum and its heading."""
    from service import operations

    result = operations.verify_archive(call.settings(), pool)
    call.show(result, "verification")
    damaged = [r for r in getattr(result, "pools", [result]) if r.status == "damaged"]
    if damaged:
        sys.exit(3)


@archive.command()
@common
@click.option("--dry-run", is_flag=True, help="Say what would move; write nothing.")
@click.option("--pool", help="Only this pool.")
def split(call: Call, *, dry_run: bool, pool: str | None) -> None:
    """Move the archive's batches into one file per quarter, verbatim."""
    from service import operations

    call.show(operations.split_archive(call.settings(), pool=pool, only_plan=dry_run), "splitting")


@cli.command()
@common
def doctor(call: Call) -> None:
    """Look at everything and say what is wrong and what to do; writes nothing."""
    from service.doctor import doctor as look

    result = look(call.settings())
    call.show(result, "checks")
    if result.status == "problem":
        sys.exit(3)


@cli.command()
@common
@click.option("--rebuild", is_flag=True, help="Build a new index beside the old one, then switch.")
@click.option("--dry-run", is_flag=True, help="Say what a sync would do; write nothing.")
@setting_flags("model", "chroma_url")
def index(call: Call, *, rebuild: bool, dry_run: bool) -> None:
    """Bring the index in line with the Markdown."""
    from service import operations
    from service.wiring import ask

    settings = call.settings()
    if dry_run:
        call.show(operations.planned_sync(settings), "sync")
        return
    operations.check_readable(settings)
    progress = _progress()
    result = ask(settings, lambda found: found.sync(rebuild=rebuild, progress=progress))
    call.show(result, "sync")
    if result.status == "degraded":
        sys.exit(6)


@cli.command()
@click.argument("query")
@common
@click.option("--tier", multiple=True, help="active or archive.")
@click.option("--kind", multiple=True, help="dream, daydream, delve, swarm …")
@click.option("--tag", "tags", multiple=True)
@click.option("--verdict", multiple=True, help="absorb, park or release.")
@click.option("--signal", multiple=True, help="resonant, faint or noise.")
@click.option("--pool", multiple=True)
@click.option("--source", help="A part of the entry's sources.")
@click.option("--since", help="Earliest date, YYYY-MM-DD.")
@click.option("--until", help="Latest date, YYYY-MM-DD.")
@click.option("--mode", type=click.Choice(["hybrid", "semantic", "lexical"]), default="hybrid", show_default=True)
@click.option("--limit", type=int, default=10, show_default=True)
@click.option("--text", type=_FORMS, default=None, help="How much of each entry to give (full in JSON, else preview).")
@click.option("--explain", is_flag=True, help="Say what each score is made of, and what just missed.")
def recall(call: Call, query: str, mode: str, limit: int, text: str | None, *, explain: bool, **filters: Any) -> None:
    """Find entries by meaning and by words, in both tiers."""
    from service.wiring import ask

    form = text or ("full" if call.as_json else "preview")
    chosen = {name: value for name, value in filters.items() if value not in (None, ())}
    request = _recall_request({"query": query, "mode": mode, "limit": limit, "text": form, "explain": explain, "filters": chosen})
    result = ask(call.settings(), lambda found: found.recall(request))
    call.show(result, "recall")


@cli.command()
@click.argument("entry_id", metavar="ID")
@common
@click.option("--pool", help="Only this pool.")
def show(call: Call, entry_id: str, pool: str | None) -> None:
    """Print one entry, verbatim."""
    from service import operations

    call.show(operations.entry(call.settings(), entry_id, pool), "entry")


@cli.command()
@click.argument("entry_id", metavar="ID")
@common
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--text", type=_FORMS, default=None, help="How much of each entry to give (full in JSON, else preview).")
def related(call: Call, entry_id: str, limit: int, text: str | None) -> None:
    """Find the entries nearest in meaning to one entry."""
    from typing import cast

    from models.query import TextForm
    from service.wiring import ask

    form = cast("TextForm", text or ("full" if call.as_json else "preview"))
    result = ask(call.settings(), lambda found: found.related(entry_id, limit, form))
    call.show(result, "recall")


@cli.command()
@common
@click.option("--host", help="Address to listen on; other than loopback needs a token.")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.")
@click.option("--idle-minutes", type=float, help="End after so long without a question; 0 is never, and the default here.")
@click.option("--background", is_flag=True, hidden=True)
@click.option("--settings-from-stdin", is_flag=True, hidden=True)
@setting_flags("model", "chroma_url")
def serve(call: Call, *, background: bool, settings_from_stdin: bool, idle_minutes: float | None, **own: Any) -> None:
    """Run the service: it owns the index and keeps it fresh."""
    from service.server import serve as run

    settings = _settings_from_stdin() if settings_from_stdin else call.settings(idle_minutes=idle_minutes, **own)
    _log_of_service(settings, background=background, verbose=call.verbose)
    limit = settings.idle_minutes if background or idle_minutes is not None else None
    run(settings, background=background, idle_minutes=limit)


def _settings_from_stdin() -> Settings:
    """What another process of ours hands over; afterwards there is nothing to read."""
    import json

    from models.settings import Settings

    found = Settings.model_validate(json.load(sys.stdin))
    with open(os.devnull) as nothing:  # noqa: PTH123 - a descriptor is wanted
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    return found


def _log_of_service(settings: Settings, *, background: bool, verbose: bool) -> None:
    """In the background to a file, else to the terminal, which may close at any time."""
    import logging

    from service.logfile import OwnLog, TerminalLog, log_file
    from service.owner import make_state_folder

    make_state_folder(settings.state_dir)
    handler = OwnLog(log_file(settings.state_dir)) if background else TerminalLog(sys.stderr)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger("coldspark").setLevel(logging.INFO)


def _recall_request(values: dict[str, Any]) -> RecallRequest:
    from pydantic import ValidationError

    from models.errors import InvalidRequestError
    from models.query import RecallRequest

    try:
        return RecallRequest.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(p) for p in first["loc"] if isinstance(p, str)) or "filters"
        raise InvalidRequestError(field.removeprefix("filters.") or "filters", first["msg"].removeprefix("Value error, ")) from error


def _progress() -> Callable[[int, int], None]:
    """A bar on stderr, on a terminal only."""
    from service.backend import silent

    if not sys.stderr.isatty():
        return silent
    from service.render import ProgressBar

    return ProgressBar("Embedding passages")


def main() -> None:
    """Runs the command; a failure that has an exit code is told in one sentence."""
    # Most commands live for a quarter of a second, a fifth of which would go into looking for garbage among fresh imports
    # and for plugins of pydantic among all installed packages.
    gc.set_threshold(100_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from models.errors import ColdsparkError, ServiceFailedError

    try:
        code = cli(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except ColdsparkError as error:
        click.echo(f"coldspark: {error}", err=True)
        sys.exit(error.code if isinstance(error, ServiceFailedError) else error.exit_code)
