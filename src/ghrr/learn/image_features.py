"""Images as bundles of bound patches and positions."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data
from torch import Tensor

from ghrr.encoding.kernels import SPECTRA, draw_frequencies
from ghrr.learn.base import FeatureEncoder, seed_of

# Phases computed at a time on a CPU, to stay in the cache; a GPU gets more.
_CHUNK_PHASES = (1 << 18, 1 << 26)


class ImageFeatures(FeatureEncoder):
    r"""Encode grey images by their patches: what is where, within a tolerance.

    Every patch p at position u is encoded by fractional powers and bound to its position, and all are bundled:
    :math:`\sum_u \|p_u\|\, \phi(p_u / \|p_u\|) * \psi(u)`, for patches without their mean. Two images are similar if
    they have similar patches at nearby positions. That is a convolutional kernel (Mairal et al., NeurIPS 2014), and it
    tolerates small shifts, unlike the kernel of whole images in :class:`KernelFeatures`. All factors are diagonal, so
    m = 1 is enough.

    Parameters
    ----------
    dim
        Number of slots. The output has ``2 * dim`` columns, scaled to length 1.
    image_shape
        Height and width. By default images are square.
    patch
        Width of a patch, in pixels.
    stride
        Distance between neighbouring patches, in pixels. The time falls with its square.
    bandwidth
        Length scale of the kernel of patches, which have length 1.
    position_bandwidth
        Length scale of the kernel of positions, in pixels: how far a patch may move.
    random_state
        Seed of the frequencies.
    device
        Device that computes the features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ghrr.learn import ImageFeatures
    >>> X, _ = load_digits(return_X_y=True)  # 8 x 8 pixels
    >>> ImageFeatures(dim=100, patch=3, random_state=0).fit_transform(X[:5]).shape
    (5, 200)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dim": [Interval(Integral, 1, None, closed="left")],
        "image_shape": [tuple, list, None],
        "patch": [Interval(Integral, 1, None, closed="left")],
        "stride": [Interval(Integral, 1, None, closed="left")],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
        "position_bandwidth": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
    }

    def __init__(
        self,
        dim: int = 1024,
        *,
        image_shape: tuple[int, int] | None = None,
        patch: int = 5,
        stride: int = 1,
        bandwidth: float = 0.6,
        position_bandwidth: float = 3.0,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.dim = dim
        self.image_shape = image_shape
        self.patch = patch
        self.stride = stride
        self.bandwidth = bandwidth
        self.position_bandwidth = position_bandwidth
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: object = None) -> Self:
        """Draw the frequencies of patches and positions; X is ``(n, height * width)``, y is not used."""
        self._validate_params()
        X = validate_data(self, X, dtype=[np.float32, np.float64])
        height, width = self.image_shape_ = self._find_shape(X.shape[1])
        seed, dim = seed_of(self.random_state), int(self.dim)
        area = self.patch**2
        draw = {"spectrum": SPECTRA["rbf"], "seed": seed}
        patches = draw_frequencies(count=dim, n=area, sampling="orthogonal", label="patch", **draw)  # type: ignore[arg-type]
        places = draw_frequencies(count=dim, n=2, sampling="orthogonal", label="position", **draw)  # type: ignore[arg-type]
        rows, columns = (torch.arange(0, size - self.patch + 1, self.stride) for size in (height, width))
        grid = torch.cartesian_prod(rows, columns).double()
        self.patch_frequencies_ = (patches / self.bandwidth).float().to(self.device or "cpu")
        self.position_phases_ = (grid @ places.mT / self.position_bandwidth).float().to(self.device or "cpu")
        self.n_features_out_ = 2 * dim
        return self

    def _find_shape(self, pixels: int) -> tuple[int, int]:
        if self.image_shape is None:
            side = round(pixels**0.5)
            shape = (side, side)
        else:
            shape = tuple(self.image_shape)  # type: ignore[assignment]
        if len(shape) != 2 or shape[0] * shape[1] != pixels:
            raise ValueError(
                f"ImageFeatures: images have {pixels} pixels, expected image_shape {shape} to have as many; "
                f"set image_shape to (height, width)"
            )
        if min(shape) < self.patch:
            raise ValueError(f"ImageFeatures: patch must be at most the size of images, {min(shape)}, got {self.patch}")
        return shape

    def check_samples(self, X: Any) -> Any:
        """Return images as an array ``(n, height * width)``."""
        return validate_data(self, X, dtype=[np.float32, np.float64], reset=False)

    def encode(self, samples: Any) -> Tensor:
        """Return the features of checked images, ``(n, 2 * dim)``."""
        phases = self.position_phases_
        pixels = torch.from_numpy(np.require(samples, dtype=np.float32, requirements=["C", "W"])).to(phases.device)
        out = pixels.new_empty(len(pixels), 2, int(self.dim))
        step = max(1, _CHUNK_PHASES[phases.is_cuda] // phases.numel())
        for images, result in zip(torch.split(pixels, step), torch.split(out, step), strict=True):
            self._encode_into(images, result)
        return torch.nn.functional.normalize(out.flatten(start_dim=1), dim=1)

    def _encode_into(self, images: Tensor, out: Tensor) -> None:
        unfold = torch.nn.functional.unfold
        patches = unfold(images.reshape(-1, 1, *self.image_shape_), self.patch, stride=self.stride).mT
        patches = patches - patches.mean(dim=-1, keepdim=True)
        sizes = torch.linalg.vector_norm(patches, dim=-1)
        patches = patches / sizes.clamp(min=1e-6)[..., None]
        angles = torch.baddbmm(self.position_phases_, patches, self.patch_frequencies_.mT.expand(len(images), -1, -1))
        weights = sizes[:, None, :]  # the sum over patches is a matrix product
        out[:, 0] = (weights @ torch.cos(angles))[:, 0]
        out[:, 1] = (weights @ angles.sin_())[:, 0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags
