"""Chroma on a server that several services may share: its address, whose collections they are, and exchanging them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from indexer.chroma import COLLECTIONS, ChromaStore, first_line, is_cosine, is_no_room, settings
from models.errors import ForeignStoreError, InvalidSettingError, StoreError, StoreFullError, StoreUnreachableError
from models.pool import Tier

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

_IDENTITY = "coldspark"
"""Metadata key of a collection: what its vectors were made with."""
_CONNECT_WITHIN_SECONDS = 3.0
_ANSWER_WITHIN_SECONDS = 20.0
_ATTEMPTS = 3


class WrongSpaceError(StoreError):
    """A collection under our name does not compare by cosine."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(f"The collection {name} at {url} does not compare by cosine: `coldspark index` makes a new one in its place.")


class ServerStore(ChromaStore):
    """The collections on a server. Records that we do not know are other people's."""

    is_shared: ClassVar[bool] = True

    def __init__(self, client: ClientAPI, url: str, identity: str = "", names: Mapping[Tier, str] = COLLECTIONS) -> None:
        """*identity* names model and rules. Raises ForeignStoreError, WrongSpaceError, StoreUnreachableError."""
        self.identity = identity
        super().__init__(client, url, names)

    def _collection(self, name: str) -> Collection:
        return self._own(self._create(name, {_IDENTITY: self.identity} if self.identity else None))

    def _again(self, tier: Tier) -> Collection:
        return self._own(super()._again(tier))

    def _own(self, found: Collection) -> Collection:
        if not is_cosine(found):
            raise WrongSpaceError(self.place, found.name)
        theirs = (found.metadata or {}).get(_IDENTITY)
        if self.identity and theirs is None:  # made before collections said so
            found.modify(metadata={**(found.metadata or {}), _IDENTITY: self.identity})
        elif self.identity and theirs != self.identity:
            raise ForeignStoreError(self.place, str(theirs), self.identity)
        return found

    def _meaning(self, error: BaseException) -> StoreError | None:
        import httpx
        from chromadb.errors import ChromaError

        known = isinstance(error, ChromaError | OSError | ValueError | httpx.HTTPError)
        if not known and type(error) is not Exception:  # Chroma's client raises bare ones for answers that it does not know
            return None
        reason = first_line(error)
        return StoreFullError(self.place) if is_no_room(reason) else StoreUnreachableError(self.place, reason)

    def publish(self, generation: str) -> None:
        """Puts these collections in the place of the ones in use, which are dropped. Raises StoreError."""
        with self._leases.lease(), self._reported():
            for tier, name in COLLECTIONS.items():
                self._exchange(self._collections[tier], name, f"{name}-old-{generation}")
        self.names = dict(COLLECTIONS)

    def _exchange(self, new: Collection, name: str, aside: str) -> None:
        from chromadb.errors import ChromaError, NotFoundError

        for attempt in range(_ATTEMPTS):
            old = None
            with suppress(NotFoundError):
                old = self._client.get_collection(name, embedding_function=None)
                old.modify(name=f"{aside}-{attempt}")
            try:
                new.modify(name=name)
            except ChromaError:  # somebody made one of that name in between
                if attempt + 1 == _ATTEMPTS:
                    raise
            if old is not None:
                self._client.delete_collection(old.name)
            if new.name == name:
                return

    def clear_leftovers(self) -> None:
        """Drops what a rebuild that died left on the server. Raises StoreError."""
        from chromadb.errors import NotFoundError

        beside = tuple(f"{name}-" for name in COLLECTIONS.values())
        with self._leases.lease(), self._reported():
            for found in self._client.list_collections():
                if found.name.startswith(beside) and found.name not in self.names.values():
                    with suppress(NotFoundError):
                        self._client.delete_collection(found.name)

    def _close(self) -> None:
        hang_up(self._client)


def hang_up(client: ClientAPI) -> None:
    """Closes the client, and the connections that it would leave open."""
    client.close()  # type: ignore[attr-defined]
    for part in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(part, "_server", None), "_session", None)
        if session is not None:
            session.close()


def open_server(url: str, identity: str = "", names: Mapping[Tier, str] = COLLECTIONS) -> ServerStore:
    """A Chroma server or cluster. Raises InvalidSettingError, StoreUnreachableError, ForeignStoreError, WrongSpaceError."""
    import chromadb
    import httpx

    parts = _parts(url)
    port = parts.port or (443 if parts.scheme == "https" else 8000)
    host = parts.hostname or ""
    address = f"[{host}]" if ":" in host else host
    base = f"{parts.scheme}://{address}:{port}{parts.path.rstrip('/')}"
    where = parse_qs(parts.query)
    tenant, database = where.get("tenant", ["default_tenant"])[-1], where.get("database", ["default_database"])[-1]
    try:  # first by ourselves: a client of Chroma's that fails to begin waits without end, and leaves its connection open
        found = httpx.get(f"{base}/api/v2/tenants/{quote(tenant, '')}/databases/{quote(database, '')}", timeout=_CONNECT_WITHIN_SECONDS)
        found.raise_for_status().json()
        client = chromadb.HttpClient(
            host=base if parts.path.rstrip("/") else address, port=port, ssl=parts.scheme == "https", settings=settings(),
            tenant=tenant, database=database,
        )  # fmt: skip
    except (ValueError, OSError, httpx.HTTPError, chromadb.errors.ChromaError) as error:
        raise StoreUnreachableError(url, first_line(error)) from error
    _limit(client)
    try:
        return ServerStore(client, url, identity, names)
    except StoreError:
        hang_up(client)
        raise


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or parts.username or parts.fragment or set(parse_qs(parts.query)) - {"tenant", "database"}:
        problem = f"{url!r} is no address such as http://chroma.example:8000 or https://chroma.example/?database=sparks"
        raise InvalidSettingError("chroma_url", "chroma_url", problem)
    return parts


def _limit(client: ClientAPI) -> None:
    """Chroma's client waits without end unless told otherwise."""
    import httpx

    session = getattr(getattr(client, "_server", None), "_session", None)
    if session is not None:
        session.timeout = httpx.Timeout(_ANSWER_WITHIN_SECONDS, connect=_CONNECT_WITHIN_SECONDS)
