"""Fractional power encoding as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags, check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d, validate_data
from torch import Tensor

from ghrr import ops
from ghrr.checks import check_known, names_errors, value_error
from ghrr.encoding import AdaptiveEncoder, FractionalPower, Spectrum
from ghrr.encoding.kernels import SAMPLING, SPECTRA, find_spectrum
from ghrr.learn.adaptive_rotations import AdaptiveRotations, learn_rotations, rotate
from ghrr.learn.bandwidth import cross_validated_factor, evenly_spaced, median_bandwidth
from ghrr.learn.base import (
    Effects,
    FeatureEncoder,
    as_array,
    as_tensor,
    check_reference,
    class_signs,
    input_names,
    seed_of,
)
from ghrr.learn.ridge import CLASS_PENALTIES, NUMBER_PENALTIES
from ghrr.space import Space

_LARGE_ANGLES = 1e3, 1e12  # single precision keeps four digits after the point below, double precision up to here
_MOST_ORTHOGONAL = 4096  # features; orthogonal frequencies of more take minutes


@names_errors
class KernelFeatures(FeatureEncoder):
    r"""Encode numbers so that the inner product of two rows approximates a kernel.

    The features are the cosines and sines of a fractional power encoding,
    :math:`z(x) = (\cos w_{jk}^\top x, \sin w_{jk}^\top x) / \sqrt{Dm}`, and :math:`z(x)^\top z(y) = \delta(\phi(x),
    \phi(y)) \approx \frac1m \sum_k K_k(x - y)`. The rotation Q of the hypervectors cancels in the inner product, so it
    is not computed. Scale the input first, for example with ``StandardScaler``.

    At equal total dimension ``dim * m**2``, m = 1 has the most frequencies and the smallest error; m > 1 serves to mix
    kernels.

    Parameters
    ----------
    dim
        Number of slots D.
    m
        Size of the matrix in each slot. The output has ``2 * dim * m`` columns.
    kernel
        As in :class:`ghrr.encoding.FractionalPower`: a name, a ``Spectrum``, or a list of m of them.
    bandwidth
        Length scale of the kernel, a number or an array as in ``FractionalPower``; ``"median"``, the median distance
        between samples, in the norm of the kernel (1 for ``"laplace"``, otherwise 2); or ``"cv"``, the multiple of the
        median distance with the lowest generalised cross-validation error of a ridge regression on at most 1,000
        samples, which needs labels or numbers y in ``fit``.
    bandwidth_scale
        Factor for ``"median"`` and ``"cv"``.
    sampling
        ``"random"``, ``"orthogonal"`` or ``"qmc"``. None means orthogonal frequencies if the kernel allows them
        and there are at most 4,096 features, otherwise random ones: the time of orthogonal ones is cubic and their
        memory quadratic in the number of features.
    adaptive
        Learn from y rotations that depend on the input, so that the length scale adapts to the region
        (:class:`ghrr.encoding.AdaptiveEncoder`). Needs m > 1, labels or numbers y in ``fit``, and dense input that is
        standardised. The output then has ``2 * dim * m**2`` columns. Use it if the target changes faster in some
        regions than in others; elsewhere it can overfit.
    random_state
        Seed of the frequencies and of the training of rotations.
    device
        Device that computes the features.

    Attributes
    ----------
    frequencies_
        Frequencies, ``(dim * m, features)``.
    bandwidth_
        Length scales, ``(m, features)``.
    rotations_
        Learned rotations, or None.
    n_features_in_
        Number of input features.
    n_features_out_
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.learn import KernelFeatures
    >>> x = np.array([[0.0], [1.0]])
    >>> z = KernelFeatures(dim=2000, bandwidth=1.0, random_state=0).fit_transform(x)
    >>> z.shape
    (2, 4000)
    >>> bool(abs(z[0] @ z[1] - np.exp(-1 / 2)) < 0.05)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 (scikit-learn reads it from the class)
        "dim": [Interval(Integral, 1, None, closed="left")],
        "m": [Interval(Integral, 1, None, closed="left")],
        "kernel": [str, list, tuple, Spectrum, callable],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), "array-like", StrOptions({"median", "cv"})],
        "bandwidth_scale": [Interval(Real, 0, None, closed="neither")],
        "sampling": [StrOptions(set(SAMPLING)), None],
        "adaptive": ["boolean"],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
    }

    _center: NDArray[Any] | None = None

    def __init__(
        self,
        dim: int = 1024,
        *,
        m: int = 1,
        kernel: Any = "rbf",
        bandwidth: Any = "median",
        bandwidth_scale: float = 1.0,
        sampling: str | None = None,
        adaptive: bool = False,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.dim = dim
        self.m = m
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.sampling = sampling
        self.adaptive = adaptive
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the bandwidth and draw the frequencies.

        Parameters
        ----------
        X
            Samples, ``(n, features)``, dense or sparse.
        y
            Labels ``(n,)``, or numbers ``(n,)`` or ``(n, targets)`` in floating point, for ``bandwidth="cv"`` and
            ``adaptive``.
        sample_weight
            Weights of the samples in the median distance, in the regression and in the training of rotations.
        """
        self._validate_params()
        X = validate_data(
            self, as_array(X), accept_sparse=False if self.adaptive else "csr", dtype=[np.float64, np.float32]
        )
        if self.adaptive and self.m < 2:
            raise value_error(f"adaptive rotations need m of at least 2, got {self.m}; use m=2")
        spectra = _spectra(self.kernel)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = np.flatnonzero(weights)  # samples of weight 0 do not count
        used = used[evenly_spaced(len(used)).numpy()]
        chosen = X[used].toarray() if scipy.sparse.issparse(X) else X[used]
        bandwidth = self.bandwidth
        if isinstance(bandwidth, str):
            bandwidth = self._median_bandwidth(spectra, torch.tensor(chosen), torch.as_tensor(weights[used]))
        self._center = None if scipy.sparse.issparse(X) else _center_of(chosen)
        chosen = self._centred(chosen)
        seed = seed_of(self.random_state)
        space = Space(dim=int(self.dim), m=int(self.m), seed=seed)
        settings = {
            "kernel": self.kernel,
            "sampling": self.sampling or _best_sampling(spectra, X.shape[1]),
            "device": self.device,
        }
        encoder = FractionalPower(space, X.shape[1], bandwidth=bandwidth, **settings)
        self.frequencies_ = encoder.frequencies.flatten(0, 1)
        self.bandwidth_ = encoder.bandwidth.numpy(force=True)
        if isinstance(self.bandwidth, str) and self.bandwidth == "cv":
            angles = as_tensor(chosen, self.frequencies_.device) @ self.frequencies_.mT
            goals, alphas = check_goals(X, y, used)
            targets, shares = (torch.as_tensor(column).to(angles) for column in (goals, weights[used]))
            factor = cross_validated_factor(angles, targets, shares, alphas)
            self.frequencies_, self.bandwidth_ = self.frequencies_ / factor, self.bandwidth_ * factor
        self.n_features_out_ = 2 * int(self.dim) * int(self.m)
        self.rotations_ = None
        if self.adaptive:
            adaptive = AdaptiveEncoder(space, X.shape[1], bandwidth=self.bandwidth_, **settings)
            columns = chosen, check_goals(X, y, used)[0], weights[used]
            samples = (torch.as_tensor(column).to(self.frequencies_) for column in columns)
            self.rotations_ = learn_rotations(adaptive, *samples, seed=seed)
            self.n_features_out_ *= int(self.m)
        return self

    def _median_bandwidth(self, spectra: list[Any], x: Tensor, weights: Tensor) -> float | Tensor:
        """Return the scaled median distance in the norm of the kernel; for a list of kernels one each, ``(m, 1)``."""
        norms = [getattr(spectrum, "norm", 2.0) for spectrum in spectra]
        medians = {norm: self.bandwidth_scale * median_bandwidth(x, weights, norm=norm) for norm in set(norms)}
        if len(medians) == 1:
            return medians[norms[0]]
        return torch.tensor([[medians[norm]] for norm in norms], dtype=torch.float64)

    def _centred(self, samples: NDArray[Any]) -> NDArray[Any]:
        """Return samples less a constant: angles in single precision lose small differences of large numbers."""
        return samples if self._center is None else samples - self._center.astype(samples.dtype)

    def check_samples(self, X: Any) -> Any:
        """Return samples as an array or a sparse matrix."""
        return validate_data(self, as_array(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def encode(self, samples: Any) -> Tensor:
        """Return the features of checked samples, ``(n, n_features_out_)``."""
        # Angles have the precision of the input. In double precision their rounding does not depend on the batch.
        frequencies = self.frequencies_
        if scipy.sparse.issparse(samples):
            products = samples.astype(np.float64) @ frequencies.numpy(force=True).T.astype(np.float64)
            angles = _in_single(torch.from_numpy(products).to(frequencies.device))
        else:
            x = torch.from_numpy(np.require(self._centred(samples), requirements=["C", "W"])).to(frequencies.device)
            angles = x @ frequencies.mT.to(x.dtype)
            if self._center is not None and self.rotations_ is None:  # their inner products do not depend on it
                angles += self._angles_of_center().to(x.dtype)
            angles = _in_single(angles)
        if self.rotations_ is not None:
            diagonal = phasors(angles).reshape(len(angles), int(self.dim), int(self.m))
            rotated = rotate(x, diagonal, AdaptiveRotations(*self.rotations_))
            return torch.view_as_real(rotated).flatten(start_dim=1).mul_(len(frequencies) ** -0.5)
        return ops.cos_sin(angles).flatten(start_dim=1).mul_(len(frequencies) ** -0.5)

    def _angles_of_center(self) -> Tensor:
        frequencies = self.frequencies_.double()
        return torch.remainder(frequencies @ torch.as_tensor(self._center).to(frequencies), 2 * torch.pi)

    def effects(self, samples: Any, vector: Tensor, reference: Any) -> Effects:
        r"""Return the mean change of the inner product if a feature is replaced by its values in ``reference``.

        With :math:`\langle z(x), v \rangle = \mathrm{Re} \sum_j u_j e^{i w_j^\top x}`, feature f of x contributes

        .. math:: \mathrm{Re} \sum_j u_j e^{i w_j^\top x} \left(1 - e^{-i w_{jf} x_f} \chi_{jf}\right), \qquad
            \chi_{jf} = \operatorname{mean}_{r} e^{i w_{jf} r_f} .

        Computes ``samples * features * frequencies`` phases. Not available with ``adaptive``.
        """
        if self.rotations_ is not None:
            raise value_error("not available for KernelFeatures(adaptive=True); fit it with adaptive=False")
        w = self.frequencies_.double()
        x, r = (_dense(rows, w) for rows in (samples, reference))
        check_reference(r)
        real, imaginary = vector.to(w).chunk(2)
        terms = torch.polar(torch.full_like(x[:, :1], len(w) ** -0.5), x @ w.mT) * torch.complex(real, -imaginary)
        score = terms.real.sum(dim=1)
        mean, magnitude = [], []
        for f, frequencies in enumerate(w.unbind(dim=1)):
            average = phasors(torch.outer(r[:, f], frequencies)).mean(dim=0)
            replaced = (terms * phasors(torch.outer(-x[:, f], frequencies)) * average).real.sum(dim=1)
            mean.append((score - replaced).mean())
            magnitude.append((score - replaced).abs().mean())
        return Effects(input_names(self), torch.stack(mean), torch.stack(magnitude))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.adaptive
        tags.target_tags.required = self.adaptive or (isinstance(self.bandwidth, str) and self.bandwidth == "cv")
        return tags


def _center_of(samples: NDArray[Any]) -> NDArray[Any]:
    """Return the middle of each feature, in single precision, so that the subtraction of nearby numbers is exact."""
    low, high = (bound(axis=0).astype(np.float64) / 2 for bound in (samples.min, samples.max))
    with np.errstate(over="ignore"):
        middle: NDArray[Any] = np.nan_to_num((low + high).astype(np.float32), posinf=0.0, neginf=0.0)
    return middle


def _in_single(angles: Tensor) -> Tensor:
    """Return angles in single precision. Large ones, as far as they have digits after the point, lose whole turns."""
    low, high = _LARGE_ANGLES
    if angles.dtype == torch.float64 and angles.numel() and low < angles.abs().amax() < high:
        angles = torch.remainder(angles, 2 * torch.pi)
    return angles.float()


def phasors(angles: Tensor) -> Tensor:
    r"""Return :math:`e^{i \theta}` for each angle."""
    return torch.polar(torch.ones_like(angles), angles)


def _dense(rows: Any, like: Tensor) -> Tensor:
    return torch.from_numpy(rows.toarray() if scipy.sparse.issparse(rows) else np.array(rows)).to(like)


def check_goals(X: Any, y: Any, used: Any) -> tuple[Any, tuple[float, ...]]:
    """Return the targets of a regression on some samples, and penalties to try.

    Numbers are targets as they are; for labels there is a target for each class among these samples, 1 or -1.
    """
    if y is None:
        raise ValueError(
            'KernelFeatures with bandwidth="cv" or adaptive=True requires y to be passed, but the target y is None'
        )
    y = np.asarray(y)
    check_consistent_length(X, y)
    if y.dtype.kind == "f":
        y = check_array(y, ensure_2d=False, input_name="y")
        return y.reshape(len(y), -1)[used], NUMBER_PENALTIES
    labels = np.unique(column_or_1d(y)[used], return_inverse=True)[1]
    return class_signs(labels, int(labels.max()) + 1), CLASS_PENALTIES


def _best_sampling(spectra: list[Any], n_features: int) -> str:
    """Return "orthogonal" if all kernels are isotropic and the features are few enough, otherwise "random"."""
    isotropic = n_features <= _MOST_ORTHOGONAL and all(
        isinstance(spectrum, Spectrum) and spectrum.isotropic for spectrum in spectra
    )
    return "orthogonal" if isotropic else "random"


def _spectra(kernel: Any) -> list[Any]:
    """Return the spectrum, or the sampling function, of a kernel or of each kernel of a list."""
    kernels = kernel if isinstance(kernel, Sequence) and not isinstance(kernel, str) else [kernel]
    for one in kernels:
        if isinstance(one, str):
            check_known("kernel", one, SPECTRA)
    return [find_spectrum(one) for one in kernels]
