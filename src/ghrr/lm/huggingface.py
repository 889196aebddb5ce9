"""Old name of :mod:`ghrr_lab.lm.huggingface`, kept for one release."""

from ghrr_lab.lm.huggingface import GHRRCache, GHRRConfig, GHRRForCausalLM

__all__ = ["GHRRCache", "GHRRConfig", "GHRRForCausalLM"]
