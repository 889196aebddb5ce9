"""Time series as bundles of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags, check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data
from torch import Tensor

from ghrr import ops
from ghrr.checks import check_device, names_errors, value_error
from ghrr.encoding.kernels import SPECTRA, draw_frequencies
from ghrr.learn.base import Effects, FeatureEncoder, as_array, check_reference, run_on_rows, seed_of
from ghrr.space import Space

Series = NDArray[Any] | list[NDArray[Any]]

# Complex numbers computed at a time, on a CPU and on a GPU.
_ROUNDING = 1e-14  # share of the deviation of values that is not a difference
_CHUNK_NUMBERS = (1 << 20, 1 << 26)


@names_errors
class SeriesFeatures(FeatureEncoder):
    r"""Encode time series by their windows, at several time scales.

    A window has n values, d steps apart. Each is encoded by fractional powers, neighbours are bound in order, and all
    windows of a series are bundled: :math:`\sum_t a_t\, \phi(x_t) * \phi(x_{t+d}) * \dots * \phi(x_{t+(n-1)d})`. For
    m = 1, where binding commutes, each place in the window has its own frequencies. Every slot has one d of 1, 2, 4,
    ..., as far as windows fit into the training series. Two series are similar if they have similar windows, wherever
    they are. With ``positions="powers"`` windows are also bound to their position, so similar windows
    count only at nearby positions.

    The values are all channels and their differences from step to step, each divided by its standard
    deviation in the training series. Windows at the ends are continued with the first and the last value.

    Parameters
    ----------
    dim, m
        Size of the hypervectors. The output has ``2 * dim * m**2`` columns, scaled to length 1.
    window
        Number of values n in a window.
    positions
        ``"neighbours"``: the order inside of windows counts, but not their position. ``"powers"``: also the position.
    position_bandwidth
        Length scale of positions, as a share of the length of the series, for ``positions="powers"``.
    normalize
        Remove the mean of each window, scale it to length 1, and weight it by its former length. Then shapes count, and
        levels do not. With False, windows keep their level and have equal weights.
    bandwidth
        Length scale of the kernel of windows; the windows have length 1, or about 1 for ``normalize=False``.
    random_state
        Seed of frequencies and rotations.
    device
        Device that computes the features.

    Attributes
    ----------
    space_
        Space of the hypervectors.
    dilations_
        Distances d between the values of a window. Slot j has number j modulo their count.
    n_channels_
        Number of channels.

    Notes
    -----
    Samples are an array ``(n, length)`` or ``(n, channels, length)``, which must have the same size in ``fit`` and
    ``transform``, or a list of series ``(length,)`` or ``(channels, length)`` of any lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.learn import SeriesFeatures
    >>> t = np.arange(60)
    >>> waves = np.stack([np.sin(t / 3), np.sin(t / 3 + 1), np.sign(np.sin(t / 3))])
    >>> z = SeriesFeatures(dim=500, random_state=0).fit_transform(waves)
    >>> bool(z[0] @ z[1] > 0.9 > z[0] @ z[2])
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dim": [Interval(Integral, 1, None, closed="left")],
        "m": [Interval(Integral, 1, None, closed="left")],
        "window": [Interval(Integral, 2, None, closed="left")],
        "positions": [StrOptions({"neighbours", "powers"})],
        "position_bandwidth": [Interval(Real, 0, None, closed="neither")],
        "normalize": ["boolean"],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
    }

    def __init__(
        self,
        dim: int = 1024,
        *,
        m: int = 1,
        window: int = 7,
        positions: str = "neighbours",
        position_bandwidth: float = 0.2,
        normalize: bool = True,
        bandwidth: float = 0.6,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.dim = dim
        self.m = m
        self.window = window
        self.positions = positions
        self.position_bandwidth = position_bandwidth
        self.normalize = normalize
        self.bandwidth = bandwidth
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: object = None) -> Self:
        """Find the scales of the channels, choose the dilations and draw the frequencies; y is not used."""
        self._validate_params()
        series = self._read(X, reset=True)
        self.n_channels_ = series[0].shape[0]
        self._check_channels(series)
        lengths = [one.shape[1] for one in series]
        values, differences = (
            np.concatenate([change(one) for one in series], axis=1) for change in (np.asarray, np.diff)
        )
        self.means_ = values.mean(axis=1, keepdims=True)
        scales = [part.std(axis=1, keepdims=True) for part in (values, differences if differences.size else values)]
        usual, steps = scales
        self.scales_ = np.where(usual > 0, usual, 1.0)
        self.difference_scales_ = np.where(steps > _ROUNDING * self.scales_, steps, self.scales_)
        widest = max(1, (int(np.median(lengths)) - 1) // (self.window - 1))
        self.dilations_ = [2**k for k in range(widest.bit_length())]
        self._draw(seed_of(self.random_state))
        self.n_features_out_ = 2 * self.space_.total_dim
        return self

    def _draw(self, seed: int) -> None:
        """Draw frequencies of values ``(places, dim, m, 2 * channels)`` and of positions, and rotations."""
        dim, m, channels = int(self.dim), int(self.m), 2 * self.n_channels_
        self.space_ = Space(dim=dim, m=m, seed=seed)
        places = int(self.window) if m == 1 else 1  # for m > 1 binding in order distinguishes places
        width = places * channels
        spectrum = SPECTRA["rbf"]
        drawn = draw_frequencies(spectrum, dim * m, width, sampling="orthogonal", seed=seed, label="window")
        drawn = drawn.reshape(dim, m, places, channels).movedim(2, 0) / self.bandwidth
        place = draw_frequencies(spectrum, dim, 1, sampling="random", seed=seed, label="position")[:, 0]
        device = check_device(self.device)
        self.frequencies_ = drawn.float().contiguous().to(device)
        self.position_frequencies_ = (place / self.position_bandwidth).float().to(device)
        self._rotations = self.space_.rotations(["series"], namespace="window", device=self.device)[0].clone()

    # ------------------------------------------------------------------------------------------------------ reading

    def _read(self, X: Any, *, reset: bool) -> Series:
        """Return series as an array ``(n, channels, length)``, or as a list if they come in one."""
        if isinstance(X, (list, tuple)) and X:
            if reset:  # a list has no width; an earlier fit to an array may have left one
                for name in {"n_features_in_", "feature_names_in_"} & set(vars(self)):
                    delattr(self, name)
            return [_read_one(one, number) for number, one in enumerate(X)]
        if getattr(X, "ndim", 0) == 1 and X.dtype.kind == "O":
            raise value_error(
                "needs an array of numbers or a list of series, got a column of objects; give series "
                "of different lengths as a list"
            )
        array: NDArray[Any] = validate_data(
            self, as_array(X), dtype=[np.float64, np.float32], allow_nd=True, reset=reset
        )
        if array.ndim > 3:
            raise value_error(f"needs (n, length) or (n, channels, length), got an array of shape {array.shape}")
        return array[:, None] if array.ndim == 2 else array

    def check_samples(self, X: Any) -> Series:
        """Return series as an array ``(n, channels, length)``, or as a list if they come in one."""
        series = self._read(X, reset=False)
        self._check_channels(series)
        return series

    def _check_channels(self, series: Series) -> None:
        wrong = next((i for i, one in enumerate(series) if one.shape[0] != self.n_channels_), None)
        if wrong is not None:
            raise ValueError(
                f"Series {wrong} has {series[wrong].shape[0]} channels, but SeriesFeatures is expecting "
                f"{self.n_channels_} channels as input."
            )

    # ----------------------------------------------------------------------------------------------------- encoding

    def encode(self, samples: Series) -> Tensor:
        """Return the features of checked series, ``(n, 2 * dim * m**2)``."""
        out = torch.zeros(len(samples), *self.space_.shape, dtype=self.space_.dtype, device=self.frequencies_.device)

        def encode_rows(rows: slice) -> None:
            own = out[rows]
            for chunk, values, lengths in self._chunks(samples[rows]):
                self._encode_into(values, lengths, own[chunk])

        run_on_rows(encode_rows, len(samples), out.device)
        return torch.nn.functional.normalize(torch.view_as_real(out).flatten(start_dim=1), dim=1)

    def _chunks(self, samples: Series) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield some series at a time: their rows, channels ``(n, 2 * channels, length)`` and lengths ``(n,)``."""
        device = self.frequencies_.device
        lengths = torch.tensor([one.shape[1] for one in samples])
        step = max(1, _CHUNK_NUMBERS[device.type == "cuda"] // (int(lengths.max()) * self.space_.total_dim))
        for start in range(0, len(samples), step):
            chunk = slice(start, start + step)
            yield chunk, self._channels(_pad(samples[chunk])).to(device), lengths[chunk].to(device)

    def effects(self, samples: Series, vector: Tensor, reference: Any) -> Effects:
        r"""Return what the windows around each step contribute, compared with those around this step in ``reference``.

        The inner product is a sum over steps t of :math:`a_t \langle w_t, v \rangle`, where :math:`w_t` has the windows
        of all time scales around t, divided by the length of the bundle. The contribution of a step is its term less
        the mean of this term over ``reference``. A series that is shorter does not count at later steps.
        """
        check_reference(reference)
        usual = torch.nan_to_num(self._terms(reference, vector).nanmean(dim=0))
        terms = self._terms(samples, vector)
        beyond = max(0, terms.shape[1] - len(usual))
        parts = terms - torch.nn.functional.pad(usual, (0, beyond))[: terms.shape[1]]
        names = [f"step {step}" for step in range(parts.shape[1])]
        return Effects(names, parts.nanmean(dim=0), parts.abs().nanmean(dim=0))

    def _terms(self, samples: Series, vector: Tensor) -> Tensor:
        """Return the terms of the inner product with a vector, ``(n, steps)``; NaN behind the end of a series."""
        longest = max(one.shape[1] for one in samples)
        goal = torch.view_as_complex(vector.to(self.frequencies_).reshape(*self.space_.shape, 2))
        out = torch.full((len(samples), longest), torch.nan, device=goal.device)
        bundles = goal.new_zeros(len(samples), *self.space_.shape)
        for chunk, values, lengths in self._chunks(samples):
            steps = values.shape[2]
            self._encode_into(values, lengths, bundles[chunk])
            terms = torch.zeros(len(values), steps, device=goal.device)
            for slots, windows, weights, angles in self._scales(values, lengths):
                products = self._products(windows, weights, angles, slots)
                terms += (products * goal[slots].conj()).real.sum(dim=(2, 3, 4))
            inside = torch.arange(steps, device=goal.device) < lengths[:, None]
            out[chunk, :steps] = torch.where(inside, terms, torch.nan)
        sizes: Tensor = torch.linalg.vector_norm(bundles, dim=(1, 2, 3)).clamp(min=1e-12)
        return out.div_(sizes[:, None])

    def _channels(self, values: Tensor) -> Tensor:
        """Return standardised values and differences, ``(n, 2 * channels, length)``."""
        # Windows that are normalised lose their level anyway, in which single precision would lose the differences.
        level = values[:, :, :1] if self.normalize else torch.from_numpy(self.means_)
        values = (values - level) / torch.from_numpy(self.scales_)
        steps = torch.nn.functional.pad(values.diff(dim=2), (1, 0)) * torch.from_numpy(
            self.scales_ / self.difference_scales_
        )
        return torch.cat([values, steps], dim=1).float()

    def _encode_into(self, values: Tensor, lengths: Tensor, out: Tensor) -> None:
        """Write the bundled windows of series ``(n, 2 * channels, length)`` to ``(n, dim, m, m)``."""
        for slots, windows, weights, angles in self._scales(values, lengths):
            bundle = self._bundle_diagonal if self.space_.m == 1 else self._bundle_products
            out[:, slots] = bundle(windows, weights, angles, slots)

    def _scales(self, values: Tensor, lengths: Tensor) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """Yield for each time scale: its slots, windows, their weights, and the angles of their positions."""
        steps = torch.arange(values.shape[2], device=values.device)
        inside = steps < lengths[:, None]
        shares = steps / lengths[:, None] if self.positions == "powers" else torch.zeros_like(inside, dtype=torch.float)
        for number, dilation in enumerate(self.dilations_[: self.space_.dim]):
            slots = slice(number, None, len(self.dilations_))
            windows, weights = self._windows(values, lengths, dilation)
            yield slots, windows, weights * inside, shares[..., None] * self.position_frequencies_[slots]

    def _windows(self, values: Tensor, lengths: Tensor, dilation: int) -> tuple[Tensor, Tensor]:
        """Return windows ``(n, length, places, 2 * channels)`` around each step, and their weights ``(n, length)``."""
        places = (torch.arange(int(self.window), device=values.device) - int(self.window) // 2) * dilation
        steps = torch.arange(values.shape[2], device=values.device)[:, None] + places
        # Beyond its ends, a series keeps its first and last value.
        steps = torch.minimum(steps.clamp(min=0), lengths[:, None, None] - 1)
        rows = torch.arange(len(values), device=values.device)[:, None, None]
        windows = values.mT[rows, steps]
        if not self.normalize:
            return windows / windows[0, 0].numel() ** 0.5, torch.ones_like(windows[:, :, 0, 0])
        windows = windows - windows.mean(dim=2, keepdim=True)
        sizes = torch.linalg.vector_norm(windows, dim=(2, 3))
        return windows / sizes.clamp(min=1e-6)[..., None, None], sizes

    def _bundle_diagonal(self, windows: Tensor, weights: Tensor, angles: Tensor, slots: slice) -> Tensor:
        """Return the weighted sum of windows for m = 1, where the angles of all factors add up."""
        frequencies = self.frequencies_[:, slots, 0].movedim(0, 1).flatten(start_dim=1)
        angles = angles.baddbmm_(windows.flatten(start_dim=2), frequencies.mT.expand(len(windows), -1, -1))
        # The sum over windows is a matrix product.
        sums = weights[:, None] @ ops.cos_sin(angles).flatten(start_dim=2)
        return torch.complex(*sums.chunk(2, dim=2)).mT[..., None]

    def _bundle_products(self, windows: Tensor, weights: Tensor, angles: Tensor, slots: slice) -> Tensor:
        """Return the weighted sum of windows whose values are bound in order."""
        return self._products(windows, weights, angles, slots).sum(dim=1)

    def _products(self, windows: Tensor, weights: Tensor, angles: Tensor, slots: slice) -> Tensor:
        """Return the weighted products of all windows, ``(n, length, slots, m, m)``."""
        rotations = self._rotations[slots] if self.space_.m > 1 else torch.ones_like(self._rotations[slots])
        frequencies = self.frequencies_.expand(windows.shape[2], -1, -1, -1)  # one for all places, or one for each
        values = [
            (rotations, frequencies[place, slots], windows[:, :, place].contiguous())
            for place in range(windows.shape[2])
        ]
        products = torch.polar(weights[..., None].expand_as(angles), angles)[..., None, None]
        products = products * ops.fractional_power(*values[0])
        for value in values[1:]:
            products = ops.bind(products, ops.fractional_power(*value))
        return products

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _read_one(series: Any, number: int) -> NDArray[Any]:
    """Return one series as ``(channels, length)``."""
    array = np.asarray(series)
    if array.ndim not in (1, 2) or not array.size:
        raise value_error(
            f"series {number} must be (length,) or (channels, length) and not empty, got shape {array.shape}"
        )
    checked: NDArray[Any] = check_array(
        array.reshape(-1, array.shape[-1]),
        dtype=[np.float64, np.float32],
        estimator="SeriesFeatures",
        input_name=f"series {number}",
    )
    return checked


def _pad(series: NDArray[Any] | Sequence[NDArray[Any]]) -> Tensor:
    """Return series as one tensor ``(n, channels, longest)``, with zeros after the end of shorter ones."""
    if isinstance(series, np.ndarray):
        return torch.from_numpy(np.require(series, dtype=np.float64, requirements=["C", "W"]))
    columns = [torch.from_numpy(np.require(one, dtype=np.float64, requirements=["C", "W"])).mT for one in series]
    return torch.nn.utils.rnn.pad_sequence(columns, batch_first=True).mT
