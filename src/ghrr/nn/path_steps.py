r"""Steps of paths: from a token to one unitary hypervector for each head of keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ghrr.nn.complex_rows import EPSILON
from ghrr.nn.config import AttentionConfig
from ghrr.nn.precision import FullPrecision


class PathSteps(FullPrecision):
    r"""The steps :math:`U_t = \Lambda_\omega \prod_r \bigl(I + (e^{i\theta_r} - 1)\, w_r w_r^\dagger\bigr)` of tokens.

    Each factor rotates one direction w of a slot by an angle :math:`\theta`, and leaves the others as they are, so the
    product is unitary. Direction and angle are linear in the token, through a bottleneck of ``path_rank`` features;
    then w is scaled to length 1. :math:`\Lambda_\omega` has the frequencies of rotary positions if scores are carried,
    otherwise it is the identity: a state that values carry must not change by itself.

    Shapes
    ------
    x: ``(batch, n, embed_dim)``; output: ``(batch, n, kv_heads, slots, m, m)``, complex

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.nn.path_steps import PathSteps
    >>> config = ghrr.nn.AttentionConfig(embed_dim=48, num_heads=2, max_len=8, mode="path", m=3, reflections=2)
    >>> steps = PathSteps(config, torch.float64)(torch.randn(1, 5, 48, dtype=torch.float64), None)
    >>> steps.shape, torch.allclose(steps.mH @ steps, torch.eye(3, dtype=steps.dtype), atol=1e-5)
    (torch.Size([1, 5, 2, 4, 3, 3]), True)
    """

    frequencies: Tensor | None

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        m, rank, slots = config.resolved_m, config.path_rank, config.row_features // config.resolved_m
        self.shape = (config.resolved_kv_heads, slots, config.reflections)
        self.m = m
        self.reduce = nn.Parameter(torch.randn(rank, config.embed_dim, dtype=dtype) / config.embed_dim**0.5)
        self.directions = nn.Parameter(torch.randn(*self.shape, 2, m, rank, dtype=dtype) / rank**0.5)
        self.direction_bias = nn.Parameter(0.5 * torch.randn(*self.shape, 2, m, dtype=dtype))
        self.angles = nn.Parameter(torch.randn(*self.shape, rank, dtype=dtype) * (config.angle_std / rank**0.5))
        self.angle_bias = nn.Parameter(torch.zeros(self.shape, dtype=dtype))
        frequencies = None
        if config.transport in ("scores", "both"):
            exponents = torch.arange(config.row_features, dtype=torch.float64) / config.row_features
            frequencies = (10000**-exponents).view(slots, m).to(dtype)
        if config.trainable_positions and frequencies is not None:
            self.frequencies = nn.Parameter(frequencies)
        else:
            self.register_buffer("frequencies", frequencies)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """Return the steps of tokens; identities at padding. In single precision or better, under autocast too."""
        with torch.autocast(x.device.type, enabled=False):
            code = (x.to(self.reduce.dtype).flatten(0, 1) @ self.reduce.mT).mT
            directions = self.directions.flatten(0, -2) @ code + self.direction_bias.flatten()[:, None]
            angles = self.angles.flatten(0, -2) @ code + self.angle_bias.flatten()[:, None]
            real, imaginary = self._matrices(
                directions.unflatten(0, (*self.shape, 2, self.m)),  # type: ignore[no-untyped-call]
                angles.unflatten(0, self.shape),  # type: ignore[no-untyped-call]
            )
            steps: Tensor = torch.complex(real, imaginary).movedim(-1, 0).contiguous().unflatten(0, x.shape[:2])  # type: ignore[no-untyped-call]
            if padding is None:
                return steps
            return torch.where(padding[..., None, None, None, None], torch.eye(self.m, device=x.device), steps)

    def _matrices(self, w: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply the factors, ``(kv_heads, slots, m, m, tokens)``.

        Tokens are last because loops over a last axis of m entries are slow. Real and imaginary parts are separate
        because compilers cannot fuse complex numbers.
        """
        w = w * torch.rsqrt(w.square().sum(dim=(-2, -3), keepdim=True).clamp_min(EPSILON**2))
        by_real, by_imaginary = -2 * (angles / 2).sin().square(), angles.sin()  # of exp(i angle) - 1, precise near 0
        eye = torch.eye(self.m, dtype=w.dtype, device=w.device)[..., None]
        real, imaginary = eye, torch.zeros_like(eye)
        for r in reversed(range(self.shape[2])):
            a, b = w[:, :, r, 0, :, None], w[:, :, r, 1, :, None]
            if r == self.shape[2] - 1:
                row_real, row_imaginary = a.transpose(2, 3), -b.transpose(2, 3)
            else:  # w† times the product so far
                row_real = (a * real + b * imaginary).sum(dim=2, keepdim=True)
                row_imaginary = (a * imaginary - b * real).sum(dim=2, keepdim=True)
            c, s = by_real[:, :, r, None, None], by_imaginary[:, :, r, None, None]
            a, b = c * a - s * b, c * b + s * a
            real = real + a * row_real - b * row_imaginary
            imaginary = imaginary + a * row_imaginary + b * row_real
        if self.frequencies is not None:  # rotates like rotary positions, whose scores have the inverse of this path
            c, s = self.frequencies.cos()[..., None, None], -self.frequencies.sin()[..., None, None]
            real, imaginary = c * real - s * imaginary, c * imaginary + s * real
        return real, imaginary
