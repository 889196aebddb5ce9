"""Space: the description of a kind of hypervectors, how to sample them, and their noise and capacity."""

from ghrr.space.space import Space, check_space

__all__ = ["Space", "check_space"]
