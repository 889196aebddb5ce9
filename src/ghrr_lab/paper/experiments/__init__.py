"""One module per figure, table or section of the paper. Each defines ``EXPERIMENT``."""
