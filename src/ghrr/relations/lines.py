"""Lines of the text files that graphs and stories are read from."""

from __future__ import annotations

import gzip
import io
import zlib

_CHUNK = 1 << 20  # bytes that are decompressed at a time; a read of the limit would allocate all of it


def decompress(content: bytes, *, limit: int) -> bytes:
    """Return the content of a gzip file, which may have several members; raise ``ValueError`` if it is damaged.

    Examples
    --------
    >>> import gzip
    >>> from ghrr.relations.lines import decompress
    >>> decompress(gzip.compress(b"one, ") + gzip.compress(b"two"), limit=100)
    b'one, two'
    """
    text = bytearray()
    try:
        with gzip.open(io.BytesIO(content)) as file:
            while len(text) <= limit and (chunk := file.read(_CHUNK)):
                text += chunk
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot be decompressed ({error}); it is damaged or not a gzip file") from error
    if len(text) > limit:
        raise ValueError(f"has more than {limit:,} bytes after decompression")
    return bytes(text)


def split_lines(content: bytes) -> list[str]:
    r"""Return the lines of UTF-8 text without their ends ``\n`` or ``\r\n``; raise ``ValueError`` for other text.

    A byte order mark at the start, which editors and spreadsheets of Windows write, is not part of the first line.

    Examples
    --------
    >>> from ghrr.relations.lines import split_lines
    >>> split_lines(b"\xef\xbb\xbfone\r\ntwo\r\n")
    ['one', 'two']
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text ({error.reason} at byte {error.start})") from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text.strip() else []
