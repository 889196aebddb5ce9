"""Images as bundles of bound patches and positions."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data
from torch import Tensor

from ghrr import ops
from ghrr.checks import check_device, names_errors, value_error
from ghrr.encoding.kernels import SPECTRA, draw_frequencies
from ghrr.learn.base import Effects, FeatureEncoder, as_array, as_tensor, check_reference, run_on_rows, seed_of

_CHUNK_PHASES = (1 << 19, 1 << 26)  # phases to compute at a time: on a CPU (they stay in the cache), on a GPU


@names_errors
class ImageFeatures(FeatureEncoder):
    r"""Encode grey images by their patches and the approximate positions of these.

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
        Height and width. By default from an array ``(n, height, width)``; images that are rows of pixels are
        square.
    patch
        Width of a patch, in pixels, at least 2.
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

    Attributes
    ----------
    image_shape_
        Height and width of images.
    positions_
        Row and column of the first pixel of each patch.
    grid_
        Number of rows and columns of patches.

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
        "patch": [Interval(Integral, 2, None, closed="left")],
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
        """Draw the frequencies of patches and positions.

        Parameters
        ----------
        X
            Images, ``(n, height, width)`` or ``(n, height * width)``.
        y
            Not used.
        """
        self._validate_params()
        X, given_size = self._read(X, reset=True)
        height, width = self.image_shape_ = self._find_shape(given_size)
        seed, dim = seed_of(self.random_state), int(self.dim)
        area = self.patch**2
        draw = {"spectrum": SPECTRA["rbf"], "seed": seed}
        patches = draw_frequencies(count=dim, n=area, sampling="orthogonal", label="patch", **draw)  # type: ignore[arg-type]
        places = draw_frequencies(count=dim, n=2, sampling="orthogonal", label="position", **draw)  # type: ignore[arg-type]
        rows, columns = (torch.arange(0, size - self.patch + 1, self.stride) for size in (height, width))
        positions = torch.cartesian_prod(rows, columns)
        self.positions_, self.grid_ = positions.tolist(), (len(rows), len(columns))
        self.patch_frequencies_ = (patches / self.bandwidth).float().to(check_device(self.device))
        self.position_phases_ = (
            (positions.double() @ places.mT / self.position_bandwidth).float().to(check_device(self.device))
        )
        self.n_features_out_ = 2 * dim
        return self

    def _find_shape(self, size: tuple[int, ...]) -> tuple[int, int]:
        """Return the height and width of images of this size, ``(height, width)`` or ``(pixels,)``."""
        given: Any = self.image_shape
        if given is not None and not (
            len(given) == 2 and all(isinstance(n, (int, np.integer)) and n > 0 for n in given)
        ):
            raise value_error(f"image_shape must be two positive integers (height, width), got {given!r}")
        side = round(size[0] ** 0.5)
        height, width = given or (size if len(size) == 2 else (side, side))
        shape = (int(height), int(width))
        _check_size(size, shape)
        if min(shape) < self.patch:
            raise value_error(f"patch must be at most the size of images, {min(shape)}, got {self.patch}")
        return shape

    def _read(self, X: Any, *, reset: bool) -> tuple[Any, tuple[int, ...]]:
        """Return images as rows of pixels, and the size that they came in: ``(pixels,)`` or ``(height, width)``."""
        X = as_array(X) if hasattr(X, "shape") else np.asarray(X)
        size = tuple(X.shape[1:])
        if len(size) > 2:
            raise value_error(
                f"needs (n, height, width) or (n, height * width), got an array of shape {X.shape}; "
                f"turn colours into grey values, for example by their mean"
            )
        rows = np.reshape(X, (len(X), size[0] * size[1])) if len(size) == 2 else X
        return validate_data(self, rows, dtype=[np.float32, np.float64], reset=reset), size

    def check_samples(self, X: Any) -> Any:
        """Return images as an array ``(n, height * width)``."""
        rows, size = self._read(X, reset=False)
        if len(size) == 2:
            _check_size(size, self.image_shape_)
        return rows

    def encode(self, samples: Any) -> Tensor:
        """Return the features of checked images, ``(n, 2 * dim)``."""
        phases = self.position_phases_
        pixels = _centred(samples, phases.device)
        out = pixels.new_empty(len(pixels), 2 * int(self.dim))

        def encode_rows(rows: slice) -> None:
            parts = (torch.split(whole[rows], self._step()) for whole in (pixels, out))
            for images, result in zip(*parts, strict=True):
                self._encode_into(images, result)

        run_on_rows(encode_rows, len(pixels), pixels.device)
        return torch.nn.functional.normalize(out, dim=1)

    def _step(self) -> int:
        """Return the number of images to encode at a time."""
        return max(1, _CHUNK_PHASES[self.position_phases_.is_cuda] // self.position_phases_.numel())

    def _encode_into(self, images: Tensor, out: Tensor) -> None:
        if images.is_cuda:
            self._encode_all_patches(images, out)
            return
        angles, weights, image, _ = self._patches(images)
        # The sum over patches is a matrix product.
        matrix = weights.new_zeros(len(images), len(weights))
        matrix[image, torch.arange(len(weights), device=weights.device)] = weights
        torch.mm(matrix, ops.cos_sin(angles).flatten(start_dim=1), out=out)

    def _encode_all_patches(self, images: Tensor, out: Tensor) -> None:
        """Encode images on a GPU. Finding the patches that are not blank would take longer than encoding all."""
        directions, sizes = self._directions(images)
        angles = (directions @ self.patch_frequencies_.mT).add_(self.position_phases_)
        torch.bmm(sizes[:, None], ops.cos_sin(angles).flatten(start_dim=2), out=out[:, None])

    def _patches(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the angles ``(k, dim)`` of all patches that are not blank, their lengths, images and positions."""
        directions, sizes = self._directions(images)
        image, position = torch.nonzero(sizes, as_tuple=True)
        angles = self.position_phases_[position]
        angles.addmm_(directions[image, position], self.patch_frequencies_.mT)
        return angles, sizes[image, position], image, position

    def _directions(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return all patches without their mean, scaled to length 1, and their lengths; blank patches have length 0.

        Shapes
        ------
        outputs: ``(n, positions, patch * patch)``, ``(n, positions)``
        """
        patches = images.reshape(-1, *self.image_shape_)
        for axis in (1, 2):  # a view; torch.nn.functional.unfold would launch a kernel for every image
            patches = patches.unfold(axis, self.patch, self.stride)
        patches = patches.reshape(len(images), -1, self.patch**2)
        patches = patches - patches.mean(dim=-1, keepdim=True)
        sizes = torch.linalg.vector_norm(patches, dim=-1)
        # The rounding of the mean leaves up to 4e-7 of the largest value in each pixel of a uniform patch.
        is_blank = sizes <= 1e-6 * self.patch * images.abs().amax(dim=1, keepdim=True)
        sizes = sizes.masked_fill_(is_blank, 0)
        return patches.div_(sizes.masked_fill(is_blank, 1)[..., None]), sizes

    def effects(self, samples: Any, vector: Tensor, reference: Any) -> Effects:
        r"""Return what the patch at each position contributes, compared with the patches there in ``reference``.

        The inner product is a sum over positions u of :math:`\|p_u\| \langle \phi(p_u / \|p_u\|) * \psi(u), v \rangle`,
        divided by the length of the bundle. The contribution of a position is its term less the mean of this term over
        ``reference``.
        """
        check_reference(reference)
        usual = torch.cat(list(self._terms(reference, vector))).mean(dim=0)
        parts = torch.cat(list(self._terms(samples, vector))) - usual
        names = [f"row {row} column {column}" for row, column in self.positions_]
        return Effects(names, parts.mean(dim=0), parts.abs().mean(dim=0))

    def _terms(self, samples: Any, vector: Tensor) -> Iterator[Tensor]:
        """Yield the terms of the inner product with a vector for some images at a time, ``(n, positions)``."""
        phases = self.position_phases_
        own = vector.to(phases)
        for images in torch.split(_centred(samples, phases.device), self._step()):
            angles, weights, image, position = self._patches(images)
            scores = weights * (ops.cos_sin(angles).flatten(start_dim=1) @ own)
            terms = scores.new_zeros(len(images), len(phases))
            terms[image, position] = scores
            sums = phases.new_empty(len(images), 2 * int(self.dim))
            self._encode_into(images, sums)
            yield terms / torch.linalg.vector_norm(sums, dim=1).clamp(min=1e-12)[:, None]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        return tags


def _centred(samples: Any, device: torch.device) -> Tensor:
    """Return images without their mean, in single precision, in which a bright image would lose its contrast.

    An image becomes 0 if its contrast is within the rounding of its brightest pixel.
    """
    pixels = as_tensor(samples, device, keep_double=True)
    means = pixels.mean(dim=1, keepdim=True, dtype=torch.float64).to(pixels.dtype)
    rounding = 4 * torch.finfo(pixels.dtype).eps * pixels.abs().amax(dim=1, keepdim=True)
    contrast = pixels - means
    return contrast.masked_fill_(contrast.abs().amax(dim=1, keepdim=True) <= rounding, 0).float()


def _check_size(size: tuple[int, ...], shape: tuple[int, int]) -> None:
    """Raise unless images of a size, ``(height, width)`` or ``(pixels,)``, have the shape ``(height, width)``."""
    if size not in (shape, (shape[0] * shape[1],)):
        raise value_error(
            f"got images of {' x '.join(map(str, size))} pixels, expected {shape[0]} x {shape[1]}; give "
            f"images as (n, height, width), or set image_shape to (height, width)"
        )
