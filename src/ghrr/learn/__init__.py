"""Learning: scikit-learn estimators on hypervectors.

Encoders are transformers from samples to real features whose inner product is a similarity of hypervectors;
:class:`HDClassifier` and :class:`HDRegressor` learn one hypervector per class or target. The numerical core
(:mod:`~ghrr.learn.ridge`, :mod:`~ghrr.learn.prototypes`, :mod:`~ghrr.learn.softmax`,
:mod:`~ghrr.learn.probabilities`, :mod:`~ghrr.learn.bandwidth`) needs PyTorch alone.
"""

from ghrr.learn.classifier import HDClassifier
from ghrr.learn.image_features import ImageFeatures
from ghrr.learn.kernel_features import KernelFeatures
from ghrr.learn.regressor import HDRegressor
from ghrr.learn.saving import load, save
from ghrr.learn.text_features import TextFeatures

__all__ = ["HDClassifier", "HDRegressor", "ImageFeatures", "KernelFeatures", "TextFeatures", "load", "save"]
