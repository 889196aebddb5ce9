"""Comparisons of models: one module per task, run by ``ghrr compare``."""
