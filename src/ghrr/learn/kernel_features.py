"""Fractional power encoding as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Tensor

from ghrr.encoding import FractionalPower, Spectrum
from ghrr.encoding.kernels import SAMPLING, find_spectrum
from ghrr.learn.bandwidth import median_bandwidth
from ghrr.learn.base import FeatureEncoder, as_tensor, seed_of
from ghrr.space import Space


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
        Length scale of the kernel, a number or an array as in ``FractionalPower``, or ``"median"``: the median distance
        between samples, times ``bandwidth_scale``.
    bandwidth_scale
        Factor for the median distance. Tune it by cross-validation, for example over 0.2, 0.5 and 1.
    sampling
        ``"random"``, ``"orthogonal"`` or ``"qmc"``. None means orthogonal frequencies if the kernel allows them,
        otherwise random ones.
    random_state
        Seed of the frequencies.
    device
        Device that computes the features.

    Attributes
    ----------
    frequencies_
        Frequencies, ``(dim * m, features)``.
    bandwidth_
        Length scales, ``(m, features)``.
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
        "bandwidth": [Interval(Real, 0, None, closed="neither"), "array-like", StrOptions({"median"})],
        "bandwidth_scale": [Interval(Real, 0, None, closed="neither")],
        "sampling": [StrOptions(set(SAMPLING)), None],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
    }

    def __init__(
        self,
        dim: int = 1024,
        *,
        m: int = 1,
        kernel: Any = "rbf",
        bandwidth: Any = "median",
        bandwidth_scale: float = 1.0,
        sampling: str | None = None,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.dim = dim
        self.m = m
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.bandwidth_scale = bandwidth_scale
        self.sampling = sampling
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Choose the bandwidth and draw the frequencies.

        Parameters
        ----------
        X
            Samples, ``(n, features)``, dense or sparse.
        y
            Not used.
        sample_weight
            Weights of the samples in the median distance.
        """
        self._validate_params()
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        bandwidth = self.bandwidth
        if isinstance(bandwidth, str):
            bandwidth = self.bandwidth_scale * _median_of(X, weights)
        encoder = FractionalPower(
            Space(dim=int(self.dim), m=int(self.m), seed=seed_of(self.random_state)),
            X.shape[1],
            kernel=self.kernel,
            bandwidth=bandwidth,
            sampling=self.sampling or _best_sampling(self.kernel),
            device=self.device,
        )
        self.frequencies_ = encoder.frequencies.flatten(0, 1)
        self.bandwidth_ = encoder.bandwidth.numpy(force=True)
        self.n_features_out_ = 2 * int(self.dim) * int(self.m)
        return self

    def check_samples(self, X: Any) -> Any:
        """Return samples as an array or a sparse matrix."""
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def encode(self, samples: Any) -> Tensor:
        """Return the features of checked samples, ``(n, 2 * dim * m)``."""
        # Angles have the precision of the input. In double precision their rounding does not depend on the batch.
        frequencies = self.frequencies_
        if scipy.sparse.issparse(samples):
            angles = as_tensor(samples @ frequencies.numpy(force=True).T.astype(samples.dtype), frequencies.device)
        else:
            x = torch.from_numpy(np.require(samples, requirements=["C", "W"])).to(frequencies.device)
            angles = (x @ frequencies.mT.to(x.dtype)).float()
        out = angles.new_empty(len(angles), 2 * len(frequencies))
        torch.cos(angles, out=out[:, : len(frequencies)])
        torch.sin(angles, out=out[:, len(frequencies) :])
        return out.mul_(len(frequencies) ** -0.5)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _median_of(X: Any, weights: Any) -> float:
    """Return the median distance of samples, dense or sparse; samples of weight 0 do not count."""
    kept = slice(None) if weights is None else np.flatnonzero(weights)
    rows, shares = X[kept], None if weights is None else torch.as_tensor(weights[kept])
    if scipy.sparse.issparse(rows):
        used = np.unique(np.linspace(0, rows.shape[0] - 1, min(rows.shape[0], 1000)).round().astype(int))
        rows, shares = rows[used].toarray(), None if shares is None else shares[used]
    return median_bandwidth(torch.tensor(rows), shares)


def _best_sampling(kernel: Any) -> str:
    """Return "orthogonal" if all kernels are isotropic, otherwise "random"."""
    kernels = kernel if isinstance(kernel, Sequence) and not isinstance(kernel, str) else [kernel]
    spectra = [find_spectrum("KernelFeatures", one) for one in kernels]
    isotropic = all(isinstance(spectrum, Spectrum) and spectrum.isotropic for spectrum in spectra)
    return "orthogonal" if isotropic else "random"
