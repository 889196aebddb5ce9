"""Settings for all tests: one thread per worker, the same hypothesis examples every time."""

from __future__ import annotations

import torch
from hypothesis import settings

torch.set_num_threads(1)  # the tests run in two processes on two cores
settings.register_profile("ghrr", max_examples=40, deadline=None, derandomize=True)
settings.load_profile("ghrr")
