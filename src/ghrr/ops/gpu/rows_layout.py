"""Sizes that the kernels of ``ghrr::rotate_rows`` share with its PyTorch implementation. Does not import triton."""

from __future__ import annotations

from torch import Tensor

EPSILON = 1e-6  # keeps rows of zeros finite when rows are scaled to one length
LONGEST_WINDOW = 8


def line_count(rows: Tensor) -> int:
    """Return the number of partial sums that ``ghrr::rotate_rows_backward`` returns for each row."""
    batch, n = rows.shape[:2]
    return batch * -(-n // tokens_of_a_line(rows))


def tokens_of_a_line(rows: Tensor) -> int:
    """Return the number of tokens of a sequence that one program of the gradient kernel processes."""
    return max(16, 4096 // rows.shape[3])
