"""Old name of :mod:`ghrr_lab.paper`, kept for one release."""

import warnings

from ghrr_lab.paper import *  # noqa: F403
from ghrr_lab.paper import __all__  # noqa: F401

warnings.warn("ghrr.paper has moved; import ghrr_lab.paper instead", DeprecationWarning, stacklevel=2)
