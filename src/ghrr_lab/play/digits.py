"""Handwritten digits: drawings in the form of scikit-learn's data, and classifiers that learn from these data.

A drawing is a bitmap of 32 × 32 pixels, written as 256 hexadecimal digits, row by row.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

from ghrr.learn import HDClassifier, ImageFeatures

SIDE = 32  # pixels of a drawing
BLOCK = 4  # pixels of a drawing per pixel of the data
MAX_WIDTH = 24  # the widest digits of the data fill six of the eight columns
Array = NDArray[np.float64]


@lru_cache(maxsize=1)
def split_digits() -> tuple[Array, Array, NDArray[np.int64], NDArray[np.int64]]:
    """Return the digits to train on and the held-out ones, then the labels of both."""
    pixels, labels = load_digits(return_X_y=True)
    train, held_out, own, others = train_test_split(pixels, labels, random_state=0)
    return train, held_out, own, others


@lru_cache(maxsize=64)
def trained_classifier(dim: int, training: str) -> tuple[HDClassifier, int, int]:
    """Return a classifier of digits, the number of held-out digits that it recognises, and their number."""
    train, held_out, labels, truth = split_digits()
    encoder = ImageFeatures(dim, patch=3, position_bandwidth=1.5, random_state=0)
    model = HDClassifier(encoder, training=training, random_state=0).fit(train, labels)
    return model, int((model.predict(held_out) == truth).sum()), len(truth)


def read_drawing(text: str) -> Array:
    """Return the 64 numbers of a drawing, in the form of the data.

    The data were made from bitmaps of 32 × 32 pixels: a number is the count of pixels in a block of 4 × 4, and every
    digit was first scaled to the full height. A drawing is treated in the same way. A drawing at another place or of
    another size would otherwise be unlike all digits that the classifier has seen.
    """
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8)).reshape(SIDE, SIDE)
    if not bits.any():
        raise ValueError("play: the drawing is empty, expected a digit; draw one or choose an example")
    scaled = fill_height(torch.from_numpy(bits).double())
    blocks = torch.nn.functional.avg_pool2d(scaled[None, None], BLOCK) * BLOCK**2
    result: Array = blocks.flatten().numpy()
    return result


def fill_height(bitmap: Tensor) -> Tensor:
    """Return a drawing scaled to the full height, at most 24 pixels wide, and centred: ``(32, 32)`` to ``(32, 32)``."""
    rows, columns = (bitmap.any(dim=1).nonzero().flatten(), bitmap.any(dim=0).nonzero().flatten())
    cut = bitmap[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    width = max(1, min(MAX_WIDTH, round(SIDE * cut.shape[1] / cut.shape[0])))
    resize = torch.nn.functional.interpolate
    scaled = resize(cut[None, None], (SIDE, width), mode="bilinear", align_corners=False, antialias=True)[0, 0]
    left = (SIDE - width) // 2
    return torch.nn.functional.pad(scaled, (left, SIDE - width - left))


def draw_sample(pixels: Array) -> str:
    """Return a drawing with the given number of pixels in each block, nearest to the neighbouring blocks with more."""
    image = torch.from_numpy(pixels).reshape(1, 1, SIDE // BLOCK, SIDE // BLOCK)
    smooth = torch.nn.functional.interpolate(image, (SIDE, SIDE), mode="bilinear", align_corners=False)
    blocks = torch.nn.functional.unfold(smooth, BLOCK, stride=BLOCK)[0]  # (pixels of a block, blocks)
    rank = blocks.argsort(dim=0, descending=True, stable=True).argsort(dim=0)
    chosen = (rank < image.flatten()).double()
    bits = torch.nn.functional.fold(chosen[None], (SIDE, SIDE), BLOCK, stride=BLOCK)[0, 0]
    return np.packbits(bits.numpy().astype(np.uint8)).tobytes().hex()


@lru_cache(maxsize=1)
def samples() -> dict[str, str]:
    """Return one held-out digit of each class as a drawing, by its name."""
    _, held_out, _, truth = split_digits()
    return {str(digit): draw_sample(held_out[truth == digit][0]) for digit in range(10)}
