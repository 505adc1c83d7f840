"""The index behind the running service, over HTTP. Imports nothing heavy."""

from __future__ import annotations

import http.client
import json
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from models.errors import ServiceEndingError, ServiceFailedError, ServiceGoneError
from models.query import RecallRequest, TextForm
from models.results import EntryResult, IndexResult, RecallResult, Result
from service.backend import Progress, silent
from service.owner import Address

Shape = TypeVar("Shape", bound=Result)

_ANSWERS_WITHIN = 2.0
_WORKS_WITHIN = 3600.0


class RemoteBackend:
    """Talks to a service on this machine."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def version(self) -> str | None:
        """The version of the Coldspark service that answers there; None when none does."""
        try:
            status, body = self._send("GET", "/healthz", None, _ANSWERS_WITHIN)
            found = json.loads(body)
            return str(found["version"]) if status == 200 and found["service"] == "coldspark" else None
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
            return None

    def is_starting(self) -> bool:
        """Whether the service cannot answer in full yet, but will before long by itself."""
        try:
            status, body = self._send("GET", "/readyz", None, _ANSWERS_WITHIN)
            return status == 503 and json.loads(body).get("starting") is True
        except (OSError, http.client.HTTPException, ValueError, AttributeError, RecursionError):
            return False

    def sync(self, *, rebuild: bool = False, progress: Progress = silent) -> IndexResult:  # noqa: ARG002 - the service shows none
        """Has the service bring its index in line with the Markdown."""
        return self._read(IndexResult, self._call("POST", "/v1/sync", {"rebuild": rebuild}))

    def recall(self, request: RecallRequest) -> RecallResult:
        """Asks the service."""
        return self._read(RecallResult, self._call("POST", "/v1/recall", request.model_dump(mode="json", exclude_defaults=True)))

    def entry(self, entry_id: str, pool: str | None = None) -> EntryResult:
        """Gets one entry from the service."""
        suffix = f"?pool={quote(pool)}" if pool else ""
        return self._read(EntryResult, self._call("GET", f"/v1/entries/{quote(entry_id, safe='')}{suffix}"))

    def related(self, entry_id: str, limit: int, text: TextForm) -> RecallResult:
        """Asks the service for entries near one."""
        path = f"/v1/entries/{quote(entry_id, safe='')}/related?limit={limit}&text={text}"
        return self._read(RecallResult, self._call("GET", path))

    def _read(self, shape: type[Shape], answer: bytes) -> Shape:
        try:
            return shape.model_validate_json(answer)
        except ValidationError as error:
            raise ServiceFailedError(self.address.url, "something of another shape; stop that service and start this version's") from error

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        try:
            status, answer = self._send(method, path, body, _WORKS_WITHIN)
        except (ConnectionError, http.client.RemoteDisconnected) as error:
            raise ServiceGoneError(self.address.url, str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise ServiceFailedError(self.address.url, str(error) or type(error).__name__) from error
        if status == 503 and ServiceEndingError.title.encode() in answer:
            raise ServiceGoneError(self.address.url, str(ServiceEndingError()), ServiceEndingError.exit_code)
        if status >= 400:
            raise _failure(self.address.url, status, answer)
        return answer

    def _send(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> tuple[int, bytes]:
        parts = urlsplit(self.address.url)
        connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=timeout)
        try:
            headers = {"Authorization": f"Bearer {self.address.token}"}
            data = None
            if body is not None:
                data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def _failure(url: str, status: int, answer: bytes) -> ServiceFailedError:
    try:
        problem = json.loads(answer)
        return ServiceFailedError(url, str(problem["detail"]), int(problem.get("exit_code", 1)))
    except (ValueError, KeyError, TypeError):
        return ServiceFailedError(url, f"HTTP status {status}")
