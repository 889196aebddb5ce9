"""Limits on requests: uploads and large bodies are refused, everything else reaches the application."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from ghrr_lab.play.limits import MAX_BYTES, LimitRequests


@pytest.fixture
def client() -> TestClient:
    async def echo(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{len(await request.body())}")

    return TestClient(LimitRequests(Starlette(routes=[Route("/{path:path}", echo, methods=["GET", "POST"])])))


@pytest.mark.parametrize(
    "path", ["/gradio_api/upload", "/gradio_api/upload/", "/gradio_api/deep_link", "/gradio_api/process_recording"]
)
def test_routes_that_write_files_are_refused(client: TestClient, path: str) -> None:
    assert client.post(path, content=b"{}").status_code == 403
    assert client.get(path).status_code == 403


def test_files_are_refused_everywhere(client: TestClient) -> None:
    files = {"files": ("a.txt", b"x")}
    assert client.post("/gradio_api/component_server", files=files).status_code == 403
    assert client.post("/gradio_api/component_server", json={}).status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "status"), [(0, 200), (MAX_BYTES, 200), (MAX_BYTES + 1, 413)])
def test_bodies_are_limited(client: TestClient, size: int, status: int, chunked: bool) -> None:
    def parts() -> Iterator[bytes]:
        yield from (b"x" * min(60_000, size - start) for start in range(0, size, 60_000))

    content: Any = parts() if chunked else b"x" * size
    answer = client.post("/gradio_api/queue/join", content=content)
    assert answer.status_code == status
    if status == 200:
        assert answer.text == str(size)


@pytest.mark.slow
def test_playground_takes_no_files(address: str) -> None:
    """The fixture checks at its end that the server left no file."""
    import urllib.error
    import urllib.request

    mark = uuid.uuid4().hex
    body = f'--{mark}\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nx\r\n--{mark}--\r\n'
    headers = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    for _ in range(3):
        request = urllib.request.Request(f"{address}gradio_api/upload", body.encode(), headers)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request)
