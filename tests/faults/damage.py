"""Ways to damage files: random bytes, wrong sizes, and changed values with a valid checksum."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.containers import join, seal, split

DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        3,
        2**31,
        2**40,
        2**63,
        2**70,
        10**400,
        0.5,
        -0.0,
        1e308,
        float("nan"),
        float("inf"),
    ),
    *("", "x", "a b", "\x00", "../../x", "\ud800", "float32", "x" * 5000, [], {}, [[]], [1, "a"], {"a": 1}, DEEP),
)
LIMIT = 4 << 30  # bytes that a reader may allocate beyond what the process has
Mutation = Callable[[random.Random, bytes], bytes]


# ---------------------------------------------------------------------------------------------------------------- bytes


def flip_bit(rng: random.Random, content: bytes) -> bytes:
    return _changed(content, rng.randrange(len(content)), lambda byte: byte ^ 1 << rng.randrange(8))


def replace_byte(rng: random.Random, content: bytes) -> bytes:
    return _changed(content, rng.randrange(len(content)), lambda byte: rng.randrange(256))


def change_header(rng: random.Random, content: bytes) -> bytes:
    return _changed(
        content, rng.randrange(min(len(content), 400)), lambda byte: rng.choice(b'"{}[]:,0159-eE.x\\\0\xff')
    )


def _changed(content: bytes, place: int, change: Callable[[int], int]) -> bytes:
    return content[:place] + bytes([change(content[place])]) + content[place + 1 :]


def cut_short(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.choice((0, 1, 7, 8, 9, len(content) // 2, len(content) - 1, rng.randrange(len(content))))]


def append(rng: random.Random, content: bytes) -> bytes:
    return content + rng.choice((b"\0", b"\n", b"{}", content, rng.randbytes(100)))


def zero_block(rng: random.Random, content: bytes) -> bytes:
    start, size = rng.randrange(len(content)), rng.choice((8, 64, 512))
    return content[:start] + bytes(len(content[start : start + size])) + content[start + size :]


def remove_block(rng: random.Random, content: bytes) -> bytes:
    start = rng.randrange(len(content))
    return content[:start] + content[start + rng.choice((1, 8, 64)) :]


def swap_blocks(rng: random.Random, content: bytes) -> bytes:
    size = rng.choice((4, 8, 16))
    a, b = sorted(rng.sample(range(max(2, len(content) // size)), 2))
    first, second = content[a * size : (a + 1) * size], content[b * size : (b + 1) * size]
    return content[: a * size] + second + content[(a + 1) * size : b * size] + first + content[(b + 1) * size :]


def claim_length(rng: random.Random, content: bytes) -> bytes:
    claimed = rng.choice((0, 1, 2, 2**20, 2**32, 2**63, 2**64 - 1, max(0, len(content) - 8)))
    return struct.pack("<Q", claimed) + content[8:]


BYTES: tuple[Mutation, ...] = (
    *(flip_bit, flip_bit, replace_byte, change_header, cut_short, append),
    *(zero_block, remove_block, swap_blocks, claim_length),
)


# --------------------------------------------------------------------------------------------------- values with a seal


def change_value(rng: random.Random, value: Any) -> Any:
    """Return a JSON value with one node replaced, removed, repeated or renamed."""
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.15:
        return rng.choice(VALUES)
    if isinstance(value, list):
        place = rng.randrange(len(value))
        match rng.randrange(4):
            case 0:
                return value[:place] + value[place + 1 :]
            case 1:
                return value + value[place:]
        return [*value[:place], change_value(rng, value[place]), *value[place + 1 :]]
    key = rng.choice(list(value))
    match rng.randrange(6):
        case 0:
            return {k: v for k, v in value.items() if k != key}
        case 1:
            return {**value, rng.choice(("", "x", key + "x")): rng.choice(VALUES)}
        case 2:
            other = rng.choice(list(value))
            return {**value, key: value[other], other: value[key]}
    return {**value, key: change_value(rng, value[key])}


def change_safetensors(rng: random.Random, content: bytes) -> bytes:
    """Another header, other names, shapes or tensors, with a checksum that fits wherever one can be computed."""
    metadata, header, data = split(content)
    names = list(header)
    match rng.randrange(6):
        case 0 | 1 | 2:
            metadata["ghrr"] = json.dumps(change_value(rng, json.loads(metadata["ghrr"])), sort_keys=True)
        case 3:
            header = change_value(rng, header)
        case 4:
            a, b = rng.choice(names), rng.choice(names)  # two tensors change places
            header[a], header[b] = header[b], header[a]
        case 5:
            start, end = header[rng.choice(names)]["data_offsets"]
            data = data[:start] + rng.randbytes(end - start) + data[end:]
    return _sealed_safetensors(metadata, header, data)


def _sealed_safetensors(metadata: dict[str, str], table: Any, data: bytes) -> bytes:
    fields = table if isinstance(table, dict) else {"x": table}
    try:
        metadata = seal(metadata["ghrr"], fields, data)
    except Exception:  # no checksum fits
        metadata["sha256"] = "0" * 64
    return join(metadata, fields, data)


def change_json(rng: random.Random, content: bytes) -> bytes:
    return json.dumps(change_value(rng, json.loads(content))).encode()


def change_sealed_json(rng: random.Random, content: bytes) -> bytes:
    """Change a manifest of items: a checksum in the first line, JSON in the second."""
    text = change_json(rng, content.partition(b"\n")[2])
    return hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def change_line(rng: random.Random, content: bytes) -> bytes:
    """Change a log: JSON in each line."""
    lines = content.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = change_json(rng, lines[place])
    return b"\n".join(lines) + b"\n"


def change_sealed_line(rng: random.Random, content: bytes) -> bytes:
    """Change a journal: a checksum and JSON in each line."""
    lines = content.splitlines()
    place = rng.randrange(len(lines))
    text = change_json(rng, lines[place][9:])
    lines[place] = f"{zlib.crc32(text):08x} ".encode() + text
    return b"\n".join(lines) + b"\n"


def sealed_change(path: Path) -> Mutation:
    """Return the change that keeps the checksum of a file of this name valid."""
    if path.suffix == ".safetensors":
        return change_safetensors
    if path.name == "manifest.json":
        return change_sealed_json
    if path.name == "log.jsonl":
        return change_line
    return change_sealed_line if path.suffix == ".jsonl" else change_json


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Limit memory, so that a huge allocation that a file asks for fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    if pages is None:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
