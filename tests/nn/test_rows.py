"""``rotate_rows``: values and gradients, the operator ``ghrr::rotate_rows``, choice of a kernel, invalid inputs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.nn import rows as module
from ghrr.nn.complex_rows import normalize_rows
from ghrr.nn.rows import rotate_rows, tokens_of_a_line
from ghrr.ops import backends
from ghrr.ops.dispatch import OPERATIONS
from tests.helpers import generator, rounding
from tests.nn.failing_kernels import use_failing_kernels


class Case(NamedTuple):
    """Sizes of one call."""

    m: int = 4
    window: int = 3
    n: int = 7
    heads: int = 2
    kv_heads: int = 1
    normalize: bool = True
    rotated_values: bool = False
    batch: int = 2

    @property
    def rows(self) -> int:
        return self.heads + 2 * self.kv_heads

    @property
    def options(self) -> dict[str, Any]:
        return {"heads": self.heads, "kv_heads": self.kv_heads, "normalize": self.normalize}


CASES = [
    Case(),
    Case(window=1),
    Case(window=1, normalize=False),
    Case(m=3, window=2, heads=3, kv_heads=3, rotated_values=True),
    Case(m=1, window=5, n=3, normalize=False),
    Case(window=4, kv_heads=0),
    Case(m=8, window=2, n=1, rotated_values=True),
]
EVERY = pytest.mark.parametrize("case", CASES, ids=str)


def random_inputs(case: Case, dtype: torch.dtype = torch.float64) -> list[Tensor | None]:
    """Draw rows, taps, rotations (of two more tokens) and log scales. Parameters have at least 32 bits."""
    exact, source = torch.promote_types(dtype, torch.float32), generator(1)
    rotated = case.rows if case.rotated_values else case.heads + case.kv_heads
    rows = torch.randn(case.batch, case.n, case.rows, 2 * case.m, generator=source).to(dtype)
    taps = torch.randn(case.window - 1, case.rows, 2 * case.m, generator=source).to(exact) / 2
    angles = torch.randn(rotated, case.n + 2, case.m, generator=source).to(exact)
    rotations = torch.cat((angles.cos(), angles.sin()), dim=-1)
    log_scale = torch.randn(case.heads, generator=source).to(exact) / 4
    return [rows, taps if case.window > 1 else None, rotations, log_scale]


def as_complex(x: Tensor) -> Tensor:
    re, im = x.double().chunk(2, dim=-1)
    return torch.complex(re, im)


def by_formula(case: Case, rows: Tensor, taps: Tensor | None, rotations: Tensor, log_scale: Tensor) -> list[Tensor]:
    """Compute queries, keys and values by the formula, row by row, with complex numbers."""
    x, rotation = as_complex(rows), as_complex(rotations)
    out = torch.zeros_like(x)
    for b, j, r in torch.cartesian_prod(*[torch.arange(size) for size in x.shape[:3]]).tolist():
        y = x[b, j, r].clone()
        for lag in range(1, min(case.window, j + 1)):
            assert taps is not None
            y += as_complex(taps)[lag - 1, r] * x[b, j - lag, r]
        if case.normalize and r < case.heads + case.kv_heads:
            y /= math.sqrt(float(y.abs().square().sum()) / (2 * case.m) + 1e-6)
        if r < case.heads:
            y *= math.exp(log_scale[r])
        out[b, j, r] = y * rotation[r, j] if r < len(rotation) else y
    side_by_side = torch.cat((out.real, out.imag), dim=-1).transpose(1, 2)
    return list(side_by_side.split([case.heads, case.kv_heads, case.kv_heads], dim=1))


def differentiable(given: list[Tensor | None], *indices: int) -> tuple[list[Any], list[Tensor]]:
    """Return copies, with gradients for those at the given indices, and a list of the latter."""
    copies = [x if x is None else x.detach().requires_grad_(i in indices) for i, x in enumerate(given)]
    return copies, [x for x in copies if x is not None and x.requires_grad]


def gradients(out: Any, leaves: list[Tensor]) -> list[Tensor]:
    """Return the gradients of a weighted sum of all three results."""
    weights = [torch.randn(x.shape, generator=generator(7)).bfloat16().to(x) for x in out]
    return list(torch.autograd.grad(out, leaves, weights))


@EVERY
def test_rotate_rows_equals_the_formula(case: Case) -> None:
    given: list[Any] = random_inputs(case)
    for have, want in zip(rotate_rows(*given, **case.options), by_formula(case, *given), strict=True):
        torch.testing.assert_close(have, want, atol=rounding(torch.float64), rtol=0)


@EVERY
def test_wrong_sign_is_noticed(case: Case) -> None:
    """Negative control: change the sign of the sines of the last token of the first query."""
    given: list[Any] = random_inputs(case)
    want = by_formula(case, *given)
    given[2][0, case.n - 1, case.m :] *= -1
    with pytest.raises(AssertionError):
        torch.testing.assert_close(list(rotate_rows(*given, **case.options)), want, atol=1e-3, rtol=0)


@EVERY
def test_rotate_rows_passes_gradcheck(case: Case) -> None:
    small = case._replace(m=min(case.m, 3), n=min(case.n, 4))
    given, leaves = differentiable(random_inputs(small), 0, 1, 2, 3)
    indices = [i for i, x in enumerate(given) if x is not None]

    def function(*tensors: Tensor) -> Any:
        full = dict(zip(indices, tensors, strict=True))
        return [x for x in rotate_rows(*[full.get(i) for i in range(4)], **small.options) if x.numel()]  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(function, leaves)


@EVERY
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_results_are_rounded_once(case: Case, dtype: torch.dtype) -> None:
    given: list[Any] = random_inputs(case, dtype)
    for have, want in zip(rotate_rows(*given, **case.options), by_formula(case, *given), strict=True):
        assert have.dtype == dtype
        slack = rounding(torch.float32, terms=case.window, scale=1 + float(largest_entry(want)))
        assert ((have.double() - want).abs() <= torch.finfo(dtype).eps / 2 * want.abs() + slack).all()


def largest_entry(x: Tensor) -> Tensor:
    return x.abs().max() if x.numel() else x.new_zeros(())


@EVERY
def test_heads_and_features_are_contiguous(case: Case) -> None:
    for x in rotate_rows(*random_inputs(case), **case.options):  # type: ignore[arg-type]
        assert x.transpose(1, 2).is_contiguous()


def test_normalize_rows_gives_equal_lengths() -> None:
    rows = torch.randn(3, 5, 8, generator=generator())
    want = math.sqrt(8) * torch.nn.functional.normalize(rows, dim=-1)
    torch.testing.assert_close(normalize_rows(rows), want, atol=rounding(torch.float32, scale=3), rtol=0)
    assert normalize_rows(rows.bfloat16()).dtype == torch.bfloat16
    assert (normalize_rows(torch.zeros(2, 4)) == 0).all()


@pytest.mark.parametrize("case", [Case(n=0), Case(batch=0)], ids=str)
def test_empty_inputs_have_zero_gradients(case: Case) -> None:
    given, leaves = differentiable(random_inputs(case), 0, 1, 3)
    for function in (lambda: rotate_rows(*given, **case.options), lambda: by_operator(case, given)):
        assert all(x.numel() == 0 for x in function())
        assert all((x == 0).all() for x in gradients(function(), leaves))


# --------------------------------------------------------------------------------------------------------- the operator


def by_operator(case: Case, given: list[Any]) -> tuple[Tensor, ...]:
    three = torch.ops.ghrr.rotate_rows(*given, *case.options.values())
    return tuple(x.transpose(1, 2) for x in three)


@EVERY
def test_operator_equals_pytorch(case: Case) -> None:
    for dtype in (torch.float64, torch.bfloat16):
        given, leaves = differentiable(random_inputs(case, dtype), 0, 1, 3)
        want, have = rotate_rows(*given, **case.options), by_operator(case, given)
        torch.testing.assert_close(have, want, atol=0, rtol=0)
        pairs = zip(gradients(have, leaves), gradients(want, leaves), strict=True)
        for (got, expected), leaf in zip(pairs, leaves, strict=True):
            assert (got.shape, got.dtype) == (leaf.shape, leaf.dtype)
            torch.testing.assert_close(got, expected, atol=rounding(leaf.dtype, scale=10), rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        (Case(rotated_values=True), torch.float32),
        (Case(window=1, normalize=False), torch.bfloat16),
        (Case(kv_heads=0), torch.bfloat16),
    ],
    ids=str,
)
def test_operator_passes_opcheck(case: Case, dtype: torch.dtype) -> None:
    given, _ = differentiable(random_inputs(case, dtype), 0, 1, 3)
    torch.library.opcheck(torch.ops.ghrr.rotate_rows.default, (*given, *case.options.values()))


@pytest.mark.parametrize("case", [Case(), Case(m=3, n=700), Case(m=24, window=1, n=200), Case(batch=0)], ids=str)
def test_gradient_operator_returns_the_declared_number_of_lines(case: Case) -> None:
    """The number is the same with and without a kernel."""
    given: list[Any] = random_inputs(case, torch.float32)
    arguments = (*given, *case.options.values())
    grads = [torch.randn(x.shape, generator=generator(7)) for x in torch.ops.ghrr.rotate_rows(*arguments)]
    lines = torch.ops.ghrr.rotate_rows_backward(*arguments, *grads)[1]
    programs = math.ceil(case.n / tokens_of_a_line(given[0]))
    assert lines.shape == (case.batch * programs, case.rows, (case.window - 1) * 2 * case.m + 1)
    shapes = [x.to("meta") if isinstance(x, Tensor) else x for x in (*arguments, *grads)]
    assert torch.ops.ghrr.rotate_rows_backward(*shapes)[1].shape == lines.shape


def test_operator_refuses_gradients_of_rotations() -> None:
    given, leaves = differentiable(random_inputs(Case()), 0, 2)
    with pytest.raises(NotImplementedError, match="rotations have no gradient here; use"):
        gradients(by_operator(Case(), given), leaves)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return use_failing_kernels("rotate_rows", monkeypatch)


def test_failing_kernel_is_replaced_by_pytorch(launched: list[str]) -> None:
    given: list[Any] = random_inputs(Case(), torch.float32)
    want = module.torch_implementation(*given, *Case().options.values())
    with ghrr.backend("auto"):
        with pytest.warns(RuntimeWarning, match="triton backend failed .RuntimeError"):
            have = rotate_rows(*given, **Case().options)
        rotate_rows(*given, **Case().options)
    assert launched == ["forward"]
    torch.testing.assert_close([x.transpose(1, 2) for x in have], list(want), atol=0, rtol=0)


def test_failing_gradient_kernel_is_replaced_by_pytorch(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given, leaves = differentiable(random_inputs(Case(), torch.float32), 0, 1, 3)
    want = gradients(rotate_with("torch", given), leaves)
    monkeypatch.setattr(OPERATIONS["rotate_rows"].kernels[0], "function", module.torch_implementation)
    with ghrr.backend("auto"):
        out = rotate_rows(*given, **Case().options)
        with pytest.warns(RuntimeWarning, match="triton backend failed"):
            have = gradients(out, leaves)
    assert launched == ["backward"]
    torch.testing.assert_close(have, want, atol=rounding(torch.float32, scale=10), rtol=0)


def rotate_with(backend: str, given: list[Any], case: Case = Case()) -> Any:  # noqa: B008 (never changed)
    with ghrr.backend(backend):
        return rotate_rows(*given, **case.options)


@pytest.mark.parametrize("case", [Case(), Case(m=128, window=1), Case(window=8), Case(m=4, kv_heads=0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_supported_sizes_and_dtypes_use_kernels(case: Case, dtype: torch.dtype, launched: list[str]) -> None:
    with pytest.warns(RuntimeWarning, match="backend failed"):
        rotate_with("auto", random_inputs(case, dtype), case)
    assert launched == ["forward"]


@pytest.mark.parametrize("case", [Case(m=2), Case(m=12), Case(m=256, window=1), Case(window=9)], ids=str)
def test_unsupported_sizes_use_pytorch(case: Case, launched: list[str]) -> None:
    rotate_with("auto", random_inputs(case, torch.float32), case)
    assert launched == []


def test_unsupported_dtypes_gradients_and_vmap_use_pytorch(
    launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = random_inputs(Case(), torch.float32)
    rotate_with("torch", given)
    rotate_with("auto", random_inputs(Case()))
    for i in (1, 2, 3):  # one of the parameters in double precision
        rotate_with("auto", [x.double() if x is not None and i == k else x for k, x in enumerate(given)])
    rotate_with("auto", differentiable(given, 2)[0])
    torch.vmap(lambda x: rotate_with("auto", [x, *given[1:]])[0])(torch.stack([given[0], given[0]]))  # type: ignore[list-item]
    monkeypatch.setitem(backends._installed, "triton", False)
    rotate_with("auto", given)
    assert launched == []


# ------------------------------------------------------------------------------------------------------------ bad input

VALID: dict[str, Any] = {
    "rows": torch.zeros(2, 5, 4, 6),
    "taps": torch.zeros(2, 4, 6),
    "rotations": torch.zeros(3, 5, 6),
    "log_scale": torch.zeros(2),
    "heads": 2,
    "kv_heads": 1,
}
INVALID: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "rows of a list": ({"rows": [1.0]}, TypeError, "rows must be a real floating-point tensor, got list"),
    "whole rows": ({"rows": torch.zeros(2, 5, 4, 6, dtype=torch.int64)}, TypeError, "rows must be a real floating"),
    "complex taps": ({"taps": torch.zeros(2, 4, 6, dtype=torch.complex64)}, TypeError, "taps must be a real floating"),
    "no rotations": (
        {"rotations": None},
        TypeError,
        "rotations must be a real floating-point tensor, got NoneType",
    ),
    "no scale": ({"log_scale": None}, TypeError, "log_scale must be a real floating-point tensor, got NoneType"),
    "another device": (
        {"rotations": torch.zeros(3, 5, 6, device="meta")},
        ValueError,
        "rotations is on meta and rows are",
    ),
    "axes of rows": ({"rows": torch.zeros(5, 4, 6)}, ValueError, r"\(batch, n, heads \+ 2 kv_heads, 2m\) for heads=2"),
    "odd features": ({"rows": torch.zeros(2, 5, 4, 5)}, ValueError, r"a float32 tensor of shape \(2, 5, 4, 5\)"),
    "no features": ({"rows": torch.zeros(2, 5, 4, 0)}, ValueError, "rows must have shape"),
    "other heads": ({"heads": 3}, ValueError, "for heads=3 and kv_heads=1, at least one head; got a float32 tensor"),
    "no heads": ({"heads": 0, "kv_heads": 2}, ValueError, "for heads=0 and kv_heads=2"),
    "less than no heads": ({"heads": 6, "kv_heads": -1}, ValueError, "for heads=6 and kv_heads=-1"),
    "taps of other rows": ({"taps": torch.zeros(2, 3, 6)}, ValueError, r"taps must have shape \(T - 1, 4, 6\), got a"),
    "taps without lags": ({"taps": torch.zeros(4, 6)}, ValueError, r"taps must have shape \(T - 1, 4, 6\), got a"),
    "rotations of other rows": (
        {"rotations": torch.zeros(1, 5, 6)},
        ValueError,
        r"shape \(3 or 4, at least 5, 6\), got a",
    ),
    "too few rotations": ({"rotations": torch.zeros(3, 4, 6)}, ValueError, r"shape \(3 or 4, at least 5, 6\), got a"),
    "narrow rotations": ({"rotations": torch.zeros(3, 5, 3)}, ValueError, r"shape \(3 or 4, at least 5, 6\), got a"),
    "axes of rotations": ({"rotations": torch.zeros(5, 6)}, ValueError, r"shape \(3 or 4, at least 5, 6\), got a"),
    "scales": ({"log_scale": torch.zeros(2, 1, 1)}, ValueError, r"log_scale must have shape \(2,\), got a float32"),
}


@pytest.mark.parametrize(("change", "error", "message"), INVALID.values(), ids=INVALID)
def test_invalid_inputs_raise_and_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    rotate_rows(**VALID, normalize=True)
    with pytest.raises(error, match=f"^rotate_rows: .*{message}"):
        rotate_rows(**VALID | change, normalize=True)


def test_mismatched_gradients_raise() -> None:
    given = (*VALID.values(), True)
    gq, gk, gv = torch.ops.ghrr.rotate_rows(*given)
    torch.ops.ghrr.rotate_rows_backward(*given, gq, gk, gv)
    for bad in (gq[:, 1:], gq.double(), gk):
        with pytest.raises(ValueError, match=r"gq must be like rows and of shape \(2, 5, 2, 6\), got a"):
            torch.ops.ghrr.rotate_rows_backward(*given, bad, gk, gv)
