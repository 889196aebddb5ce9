"""Limits on requests: the playground takes no files and stores nothing for its visitors, so requests are small.

gradio has routes for uploads, recordings, links to stored states and more, which write files. The page uses none of
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

MAX_BYTES = 3 << 20  # of a request; a file has at most 1 MB, and quotation marks take two bytes each in JSON
# Routes of gradio that write files or read them for others.
REFUSED = ("upload", "process_recording", "deep_link", "stream", "vibe-edit", "undo-vibe-edit", "vibe-code")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class LimitRequests:
    """ASGI middleware that refuses uploads with status 403, and bodies of more than three mebibytes with 413."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        words = scope["path"].strip("/").removeprefix("gradio_api/").split("/")
        if words[0] in REFUSED or headers.get(b"content-type", b"").lower().startswith(b"multipart/"):
            await _answer(send, 403, "The playground takes no files.")
            return
        # The body is read here: a length in the headers may be missing or wrong.
        body = bytearray()
        while scope["method"] not in ("GET", "HEAD"):
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MAX_BYTES:
                await _answer(send, 413, f"A request may have at most {MAX_BYTES:,} bytes.")
                return
            if not message.get("more_body"):
                break
        await self.app(scope, _replay(bytes(body), receive), send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that gives the application a body that was read, and then what the server has."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


async def _answer(send: Send, status: int, text: str) -> None:
    # The connection is closed: what the client still sends is not read.
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
