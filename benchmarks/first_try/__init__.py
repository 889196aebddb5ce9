"""Benchmark of first tries: ghrr with its defaults on tables that no setting was chosen on; see ``__main__``."""
