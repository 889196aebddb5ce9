"""Encoders: modules that encode numbers, names, sequences, images and positions as hypervectors."""

from ghrr.encoding.adaptive import AdaptiveEncoder
from ghrr.encoding.codebook import Codebook
from ghrr.encoding.decoding import Decoded
from ghrr.encoding.fields import Image, TimeSeries
from ghrr.encoding.fractional_power import FractionalPower, kernel_weights
from ghrr.encoding.kernels import SPECTRA, Spectrum
from ghrr.encoding.multimodal import Multimodal
from ghrr.encoding.ngrams import NGramEncoder
from ghrr.encoding.positions import GivenPositions, OneHotPositions, PowerPositions
from ghrr.encoding.scalars import Circular, Level, Thermometer
from ghrr.encoding.sequences import SequenceEncoder

__all__ = [
    "SPECTRA",
    "AdaptiveEncoder",
    "Circular",
    "Codebook",
    "Decoded",
    "FractionalPower",
    "GivenPositions",
    "Image",
    "Level",
    "Multimodal",
    "NGramEncoder",
    "OneHotPositions",
    "PowerPositions",
    "SequenceEncoder",
    "Spectrum",
    "Thermometer",
    "TimeSeries",
    "kernel_weights",
]
