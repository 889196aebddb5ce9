"""Layers whose attention is binding."""

from ghrr.nn import functional
from ghrr.nn.attention import Attention, AttentionCache
from ghrr.nn.config import AttentionConfig

__all__ = ["Attention", "AttentionCache", "AttentionConfig", "functional"]
