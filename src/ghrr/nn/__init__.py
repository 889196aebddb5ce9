"""Layers whose attention is binding."""

from ghrr.nn import functional
from ghrr.nn.attention import Attention, AttentionCache

__all__ = ["Attention", "AttentionCache", "functional"]
