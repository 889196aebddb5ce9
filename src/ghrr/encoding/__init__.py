"""Encoders: numbers, symbols, sequences, images and positions as hypervectors. All are ``nn.Module`` s."""

from ghrr.encoding.adaptive import AdaptiveEncoder
from ghrr.encoding.codebook import Codebook
from ghrr.encoding.decoding import Decoded
from ghrr.encoding.fields import Image, TimeSeries
from ghrr.encoding.fractional_power import FractionalPower, kernel_weights
from ghrr.encoding.kernels import Spectrum
from ghrr.encoding.multimodal import Multimodal
from ghrr.encoding.positions import GivenPositions, OneHotPositions, PowerPositions
from ghrr.encoding.scalars import Circular, Level, Thermometer
from ghrr.encoding.sequences import NGrams, Sequence

__all__ = [
    "AdaptiveEncoder",
    "Circular",
    "Codebook",
    "Decoded",
    "FractionalPower",
    "GivenPositions",
    "Image",
    "Level",
    "Multimodal",
    "NGrams",
    "OneHotPositions",
    "PowerPositions",
    "Sequence",
    "Spectrum",
    "Thermometer",
    "TimeSeries",
    "kernel_weights",
]
