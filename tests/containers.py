"""Change a container file and renew its checksums, as someone who knows the format could."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any


def split(content: bytes) -> tuple[dict[str, str], dict[str, Any], bytes]:
    """Return the metadata, the table of tensors and the data of a safetensors file."""
    (length,) = struct.unpack("<Q", content[:8])
    table = json.loads(content[8 : 8 + length])
    return table.pop("__metadata__"), table, content[8 + length :]


def join(metadata: dict[str, str], table: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps({"__metadata__": metadata, **table}).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def seal(text: str, table: dict[str, Any], data: bytes) -> dict[str, str]:
    """Return metadata with checksums that match the header ``text``, the table and the data."""
    digests = {name: hashlib.sha256(data[slice(*entry["data_offsets"])]).hexdigest() for name, entry in table.items()}
    listed = json.dumps(digests, sort_keys=True)
    checksum = hashlib.sha256("\n".join([text, listed, json.dumps(table, sort_keys=True)]).encode()).hexdigest()
    return {"ghrr": text, "container": "2", "digests": listed, "sha256": checksum}


def reseal(
    path: Path, change: Callable[[dict[str, Any]], object] = lambda header: None, table: dict[str, Any] | None = None
) -> None:
    """Change the JSON header and entries of the table of a container, with checksums that match."""
    metadata, entries, data = split(path.read_bytes())
    header = json.loads(metadata["ghrr"])
    change(header)
    sealed = seal(json.dumps(header, sort_keys=True), entries, data)
    if table:
        entries |= table
        text = "\n".join([sealed["ghrr"], sealed["digests"], json.dumps(entries, sort_keys=True)])
        sealed["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_bytes(join(sealed, entries, data))


def reseal_text(path: Path, text: str) -> None:
    """Replace the header of a container by any text, with checksums that match."""
    _, entries, data = split(path.read_bytes())
    path.write_bytes(join(seal(text, entries, data), entries, data))
