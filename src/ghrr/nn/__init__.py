"""Attention by binding, as a layer and as functions."""

from ghrr.nn import functional
from ghrr.nn.attention import Attention
from ghrr.nn.cache import AttentionCache
from ghrr.nn.config import AttentionConfig
from ghrr.nn.positions import PositionRotation

__all__ = ["Attention", "AttentionCache", "AttentionConfig", "PositionRotation", "functional"]
