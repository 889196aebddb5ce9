"""Files: all functions with which the library reads and writes files.

- :mod:`~ghrr.files.filesystem`: safe access to files and folders (regular files only, atomic writes, folder locks)
- :mod:`~ghrr.files.folders`: exchange two folders, and remove only named files
- :mod:`~ghrr.files.delimited`: tables of text, such as CSV files
- :mod:`~ghrr.files.json_lines`: JSON documents, one per line or in a list
- :mod:`~ghrr.files.json_files`: JSON with limits on size and depth, and a check of its fields
- :mod:`~ghrr.files.container`: tensors and a JSON header in one safetensors file with checksums
- :mod:`~ghrr.files.spaces`: containers whose tensors belong to one :class:`ghrr.Space`
- :mod:`~ghrr.files.hypervectors`: :func:`save` and :func:`load`

Other layers import from here. Nothing here uses pickle.
"""

from ghrr.files.container import (
    TensorChunks,
    TensorFile,
    prefix_errors,
    read_tensors,
    write_tensors,
)
from ghrr.files.delimited import USUAL_SEPARATORS, check_header, find_separator, open_delimited
from ghrr.files.filesystem import (
    PathLike,
    atomic_write,
    check_inside,
    check_regular,
    lock_folder,
    open_to_append,
    read_bytes,
    sync_folder,
)
from ghrr.files.folders import aside_name, exchange_folders, list_files, recover_folder, remove_files
from ghrr.files.hypervectors import load, save
from ghrr.files.json_files import (
    check_count,
    check_fields,
    parse_json,
    read_checked_json,
    read_json,
    write_checked_json,
    write_json,
)
from ghrr.files.json_lines import LINES, check_suffix, read_json_lines, read_objects, refuse_line
from ghrr.files.spaces import as_real_pairs, read_container, restore_space, space_header, write_container

__all__ = [
    "LINES",
    "USUAL_SEPARATORS",
    "PathLike",
    "TensorChunks",
    "TensorFile",
    "as_real_pairs",
    "aside_name",
    "atomic_write",
    "check_count",
    "check_fields",
    "check_header",
    "check_inside",
    "check_regular",
    "check_suffix",
    "exchange_folders",
    "find_separator",
    "list_files",
    "load",
    "lock_folder",
    "open_delimited",
    "open_to_append",
    "parse_json",
    "prefix_errors",
    "read_bytes",
    "read_checked_json",
    "read_container",
    "read_json",
    "read_json_lines",
    "read_objects",
    "read_tensors",
    "recover_folder",
    "refuse_line",
    "remove_files",
    "restore_space",
    "save",
    "space_header",
    "sync_folder",
    "write_checked_json",
    "write_container",
    "write_json",
    "write_tensors",
]
