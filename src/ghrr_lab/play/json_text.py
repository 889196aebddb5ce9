"""JSON that a user types."""

from __future__ import annotations

import json
from typing import Any

from ghrr.files import parse_json


def read_object(text: str, name: str) -> dict[str, Any]:
    """Parse an object of JSON; raise ``ValueError`` for anything else, for an empty object and for broken Unicode.

    Examples
    --------
    >>> from ghrr_lab.play.json_text import read_object
    >>> read_object('{"name": "Ada"}', "the document")
    {'name': 'Ada'}
    """
    value = parse_json(text, f"play: {name}", strict=True)
    if not isinstance(value, dict) or not value:
        raise ValueError(f'play: {name} must be an object with at least one value, such as {{"name": "Ada"}}')
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(f"play: {name} has characters that are not valid Unicode; remove them") from None
    return value
