"""Start and stop the server of the playground."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_FOLDER = "GRADIO_TEMP_DIR"


def serve(
    host: str = "127.0.0.1",
    port: int = 7860,
    *,
    runs: Sequence[Path] = (),
    open_browser: bool = False,
    on_start: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the playground until an interrupt (Ctrl-C), which raises ``KeyboardInterrupt``.

    Parameters
    ----------
    host, port
        Address to listen on. ``127.0.0.1`` can be reached from this machine only.
    runs
        Run folders of language models for the tab on attention; without them it trains its own.
    open_browser
        Open the page in a browser.
    on_start
        Called with the address of the page once it is served.

    Raises
    ------
    OSError
        The server cannot listen on this address, for example because the port is in use.
    RunError
        A folder of ``runs`` holds no trained model.
    """
    check_address(host, port)
    with _temporary_files():
        _serve(host, port, runs, open_browser, on_start)


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Make gradio use a temporary folder of its own, which is removed at the end of a ``with`` block."""
    before = os.environ.get(_FOLDER)
    with tempfile.TemporaryDirectory(prefix="ghrr-play-", ignore_cleanup_errors=True) as folder:
        os.environ[_FOLDER] = folder  # gradio has no other way to choose it
        try:
            yield
        finally:
            if before is None:
                del os.environ[_FOLDER]
            else:
                os.environ[_FOLDER] = before


def _serve(host: str, port: int, runs: Sequence[Path], open_browser: bool, on_start: Callable[[str], None]) -> None:
    # gradio takes seconds to import: report an address that cannot be used before that.
    import gradio as gr  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from starlette.middleware import Middleware  # noqa: PLC0415

    from ghrr_lab.play.app import make_page, make_tabs, show  # noqa: PLC0415
    from ghrr_lab.play.attention import load_models  # noqa: PLC0415
    from ghrr_lab.play.limits import LimitRequests  # noqa: PLC0415
    from ghrr_lab.play.pictures import STYLE_SHEET  # noqa: PLC0415

    # Fonts of the system: none is loaded from another host.
    theme = gr.themes.Default(font=("system-ui", "sans-serif"), font_mono=("ui-monospace", "monospace"))
    torch.set_num_threads(1)  # pictures are small, and each request has a thread of its own
    with ExitStack() as stack:
        tabs = make_tabs(load_models(runs))
        for tab in tabs:
            show(tab, tab.defaults)  # the first call of a kernel compiles it: do this before the page is used
        page = make_page(tabs)
        stack.callback(page.close, verbose=False)
        _, address, _ = page.launch(
            server_name=host,
            server_port=port,
            inbrowser=open_browser,
            prevent_thread_lock=True,
            quiet=True,
            share=False,
            ssr_mode=False,
            run_history=False,
            enable_monitoring=False,
            footer_links=[],
            max_file_size="1kb",
            app_kwargs={"middleware": [Middleware(LimitRequests)]},
            theme=theme,
            css=STYLE_SHEET,
        )
        on_start(address)
        threading.Event().wait()


def check_address(host: str, port: int) -> None:
    """Raise ``OSError`` unless a server can listen on an address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just released is free
            probe.bind(address)
    except socket.gaierror:
        raise OSError(f"play: {host!r} is not an address of this machine; choose another with --host") from None
    except OSError as error:
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise OSError(f"play: port {port} {reason} on {host}; choose another with --port") from None
