"""Old name of :mod:`ghrr_lab.lm`, kept for one release."""

import warnings

from ghrr_lab.lm import *  # noqa: F403
from ghrr_lab.lm import __all__  # noqa: F401

warnings.warn("ghrr.lm has moved; import ghrr_lab.lm instead", DeprecationWarning, stacklevel=2)
