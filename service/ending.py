"""The end of a service: whoever still waits for an answer is told that there will be none."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from models.errors import ServiceEndingError
from service.problems import problem


class Ending:
    """ASGI middleware; once `told` is set, every request that has no answer yet is refused.

    The work itself may be a thread inside a native library, which nobody can end: it is left behind.
    """

    def __init__(self, app: ASGIApp, *, told: asyncio.Event) -> None:
        self.app = app
        self.told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, and waits for its answer or the end."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False
        left = False

        async def watched(message: Message) -> None:
            nonlocal begun
            if not left:
                begun = True
                await send(message)

        work = asyncio.ensure_future(self.app(scope, receive, watched))
        told = asyncio.ensure_future(self.told.wait())
        try:
            await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not begun:
                left = True
                await _refusal()(scope, receive, send)
                return
            await work
        finally:
            work.cancel()  # changes nothing when it is done
            told.cancel()


def _refusal() -> ASGIApp:
    error = ServiceEndingError()
    return problem(error.status, error.title, str(error), exit_code=error.exit_code)
