"""Triton kernels of the products.

Binding is limited by memory bandwidth, so the kernels are designed around memory access. A complex64 number is loaded
and stored as one word of 64 bits, and neighbouring threads compute neighbouring numbers of the result: each computes
``ROWS`` rows of one column of a slot. Threads of one slot load the same numbers, which come from the first-level cache.
m is a compile-time constant, and the loops over it are unrolled.

``sizes`` are the axes of the result, ``steps`` the strides of an operand along them and ``item`` the stride between its
items, in units of ``UNIT`` numbers. Offsets have 64 bits only if ``WIDE``. Coverage tools cannot trace compiled code,
hence the ``no cover`` marks; ``tests/ops`` compares the kernels with the reference.
"""

# Kernels have no types, and cannot join tuples by a star.
# mypy: ignore-errors
# ruff: noqa: PLR0917, RUF005

from __future__ import annotations

import triton
import triton.language as tl

# Items summed before they are added to the result: rounding errors grow with the size of groups and their number.
GROUP = tl.constexpr(128)


@triton.jit
def _real(word):  # pragma: no cover
    return word.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _imag(word):  # pragma: no cover
    return (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _word(re, im):  # pragma: no cover
    low = re.to(tl.uint32, bitcast=True).to(tl.uint64)
    high = im.to(tl.uint32, bitcast=True).to(tl.uint64)
    return ((high << 32) | low).to(tl.int64, bitcast=True)


@triton.jit
def _add_product(re, im, ar, ai, br, bi, CONJ_A: tl.constexpr, CONJ_B: tl.constexpr):  # pragma: no cover
    """Add a b to a number, with the conjugates of either."""
    re += ar * br
    if CONJ_A == CONJ_B:
        re -= ai * bi
    else:
        re += ai * bi
    if CONJ_B:
        im -= ar * bi
    else:
        im += ar * bi
    if CONJ_A:
        im -= ai * br
    else:
        im += ai * br
    return re, im


@triton.jit
def _zeros(COUNT: tl.constexpr, BLOCK: tl.constexpr):  # pragma: no cover
    zeros = ()
    for _ in tl.static_range(COUNT):
        zeros = zeros + (tl.zeros((BLOCK,), tl.float32),)
    return zeros


@triton.jit
def _add(x, y):  # pragma: no cover
    total = ()
    for r in tl.static_range(len(x)):
        total = total + (x[r] + y[r],)
    return total


@triton.jit
def _index(program, WIDE: tl.constexpr):  # pragma: no cover
    return program.to(tl.int64 if WIDE else tl.int32)


@triton.jit
def _offset(slot, sizes, steps, UNIT: tl.constexpr):  # pragma: no cover
    """Compute the offsets of slots in an operand."""
    offset = tl.zeros_like(slot)
    for axis in tl.static_range(len(sizes) - 1, 0, -1):
        outer = slot // sizes[axis]
        offset += (slot - outer * sizes[axis]) * steps[axis]
        slot = outer
    return (offset + slot * steps[0]) * UNIT


@triton.jit
def _add_rows(
    re,
    im,
    a,
    b,
    inside,
    M: tl.constexpr,
    ROWS: tl.constexpr,
    ADJOINT_A: tl.constexpr,
    ADJOINT_B: tl.constexpr,
):  # pragma: no cover
    """Add A B to rows of one column; ``a`` points to the first row of A, ``b`` to the column of B."""
    a_row: tl.constexpr = 1 if ADJOINT_A else M
    a_column: tl.constexpr = M if ADJOINT_A else 1
    b_row: tl.constexpr = 1 if ADJOINT_B else M
    for n in tl.static_range(M):
        b_word = tl.load(b + n * b_row, inside)
        b_re, b_im = _real(b_word), _imag(b_word)
        new_re, new_im = (), ()
        for r in tl.static_range(ROWS):
            a_word = tl.load(a + r * a_row + n * a_column, inside)
            a_re, a_im = _real(a_word), _imag(a_word)
            x, y = _add_product(re[r], im[r], a_re, a_im, b_re, b_im, ADJOINT_A, ADJOINT_B)
            new_re, new_im = new_re + (x,), new_im + (y,)
        re, im = new_re, new_im
    return re, im


@triton.jit
def _slot(a, inside, M: tl.constexpr):  # pragma: no cover
    """Load all words of a slot, two at a time if their number is even."""
    words = ()
    if M % 2 == 0:
        pair = tl.arange(0, 2)[None, :]
        for i in tl.static_range(M * M // 2):
            x, y = tl.split(tl.load((a + 2 * i)[:, None] + pair, inside[:, None]))
            words = words + (x, y)
    else:
        for i in tl.static_range(M * M):
            words = words + (tl.load(a + i, inside),)
    return words


@triton.jit
def _store_rows(out, re, im, f, slot, row, column, inside, M: tl.constexpr, ROWS: tl.constexpr):  # pragma: no cover
    for r in tl.static_range(ROWS):
        # With one row per thread the compiler must see that the stores are contiguous.
        offset = f if ROWS == 1 else slot * (M * M) + (row + r) * M + column
        tl.store(out + offset, _word(re[r], im[r]), inside)


@triton.jit
def bind(
    out,
    a,
    b,
    threads,
    sizes,
    a_steps,
    b_steps,
    UNIT: tl.constexpr,
    M: tl.constexpr,
    ROWS: tl.constexpr,
    ADJOINT_A: tl.constexpr,
    ADJOINT_B: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # pragma: no cover
    """Compute A B for each slot."""
    f = _index(tl.program_id(0), WIDE) * BLOCK + tl.arange(0, BLOCK)
    inside = f < threads
    column = f % M
    row = f // M % (M // ROWS) * ROWS
    slot = f // (M * (M // ROWS))
    a += _offset(slot, sizes, a_steps, UNIT) + row * (1 if ADJOINT_A else M)
    b += _offset(slot, sizes, b_steps, UNIT) + column * (M if ADJOINT_B else 1)
    re, im = _zeros(ROWS, BLOCK), _zeros(ROWS, BLOCK)
    re, im = _add_rows(re, im, a, b, inside, M, ROWS, ADJOINT_A, ADJOINT_B)
    _store_rows(out, re, im, f, slot, row, column, inside, M, ROWS)


@triton.jit
def bind_bundle(
    out,
    a,
    b,
    threads,
    items,
    share,
    sizes,
    a_steps,
    b_steps,
    a_item,
    b_item,
    UNIT: tl.constexpr,
    M: tl.constexpr,
    ROWS: tl.constexpr,
    ADJOINT_A: tl.constexpr,
    ADJOINT_B: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # pragma: no cover
    """Sum A B over items. Each program sums ``share`` items and writes to its own part of ``out``."""
    f = _index(tl.program_id(0), WIDE) * BLOCK + tl.arange(0, BLOCK)
    inside = f < threads
    column = f % M
    row = f // M % (M // ROWS) * ROWS
    slot = f // (M * (M // ROWS))
    a_offset = _offset(slot, sizes, a_steps, UNIT) + row * (1 if ADJOINT_A else M)
    b_offset = _offset(slot, sizes, b_steps, UNIT) + column * (M if ADJOINT_B else 1)
    part = tl.program_id(1)
    first = part * share
    last = tl.minimum(first + share, items)
    a += first.to(tl.int64) * a_item * UNIT
    b += first.to(tl.int64) * b_item * UNIT
    re, im = _zeros(ROWS, BLOCK), _zeros(ROWS, BLOCK)
    for group in range(first, last, GROUP):
        group_re, group_im = _zeros(ROWS, BLOCK), _zeros(ROWS, BLOCK)
        for _ in range(group, tl.minimum(group + GROUP, last)):
            group_re, group_im = _add_rows(
                group_re, group_im, a + a_offset, b + b_offset, inside, M, ROWS, ADJOINT_A, ADJOINT_B
            )
            a += a_item * UNIT
            b += b_item * UNIT
        re, im = _add(re, group_re), _add(im, group_im)
    out += part.to(tl.int64) * threads * ROWS
    _store_rows(out, re, im, f, slot, row, column, inside, M, ROWS)


@triton.jit
def multibind(
    out,
    a,
    threads,
    items,
    sizes,
    a_steps,
    a_item,
    UNIT: tl.constexpr,
    M: tl.constexpr,
    ADJOINT: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # pragma: no cover
    """Multiply items in order. A thread keeps one column and multiplies it by the items, from the last to the first."""
    f = _index(tl.program_id(0), WIDE) * BLOCK + tl.arange(0, BLOCK)
    inside = f < threads
    column = f % M
    slot = f // M
    offset = _offset(slot, sizes, a_steps, UNIT)
    a_row: tl.constexpr = 1 if ADJOINT else M
    a_column: tl.constexpr = M if ADJOINT else 1
    a += (items - 1).to(tl.int64) * a_item * UNIT
    re, im = (), ()
    for n in tl.static_range(M):
        word = tl.load(a + offset + n * a_row + column * a_column, inside)
        re, im = re + (_real(word),), im + (-_imag(word) if ADJOINT else _imag(word),)
    for _ in range(1, items):
        a -= a_item * UNIT
        words = _slot(a + offset, inside, M)
        new_re, new_im = (), ()
        for r in tl.static_range(M):
            x, y = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
            for n in tl.static_range(M):
                word = words[r * a_row + n * a_column]
                x, y = _add_product(x, y, _real(word), _imag(word), re[n], im[n], ADJOINT, False)
            new_re, new_im = new_re + (x,), new_im + (y,)
        re, im = new_re, new_im
    _store_rows(out, re, im, f, slot, 0, column, inside, M, M)


@triton.jit
def bind_similarity(
    sums,
    a,
    b,
    c,
    dim,
    parts,
    sizes,
    a_steps,
    b_steps,
    c_steps,
    UNIT: tl.constexpr,
    M: tl.constexpr,
    ROWS: tl.constexpr,
    ADJOINT_A: tl.constexpr,
    ADJOINT_B: tl.constexpr,
    ADJOINT_C: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # pragma: no cover
    """Sum Re tr(A B C†) over the ``dim`` slots of a hypervector. ``parts`` programs compute one partial sum each."""
    program = _index(tl.program_id(0), WIDE)
    first_slot = program // parts * dim
    threads = dim * (M * (M // ROWS))
    c_row: tl.constexpr = 1 if ADJOINT_C else M
    c_column: tl.constexpr = M if ADJOINT_C else 1
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(program % parts * BLOCK, threads, parts * BLOCK):
        f = start + tl.arange(0, BLOCK)
        inside = f < threads
        column = f % M
        row = f // M % (M // ROWS) * ROWS
        slot = first_slot + f // (M * (M // ROWS))
        a_at = a + _offset(slot, sizes, a_steps, UNIT) + row * (1 if ADJOINT_A else M)
        b_at = b + _offset(slot, sizes, b_steps, UNIT) + column * (M if ADJOINT_B else 1)
        c_at = c + _offset(slot, sizes, c_steps, UNIT) + row * c_row + column * c_column
        re, im = _zeros(ROWS, BLOCK), _zeros(ROWS, BLOCK)
        re, im = _add_rows(re, im, a_at, b_at, inside, M, ROWS, ADJOINT_A, ADJOINT_B)
        for r in tl.static_range(ROWS):
            word = tl.load(c_at + r * c_row, inside)
            c_im = -_imag(word) if ADJOINT_C else _imag(word)
            total += tl.where(inside, re[r] * _real(word) + im[r] * c_im, 0.0)
    tl.store(sums + program, tl.sum(total, 0))
