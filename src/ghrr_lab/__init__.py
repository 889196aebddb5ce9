"""Programs written with :mod:`ghrr`, by its public names alone.

- ``lm``: language models with GHRR attention (``ghrr lm``)
- ``paper``: the experiments of the paper, with a verdict on each claim (``ghrr paper``)
- ``comparison``: vector symbolic architectures at equal size (``ghrr compare``)
- ``play``: the playground (``ghrr play``)
"""
