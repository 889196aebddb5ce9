"""How to install the optional packages, for error messages of all layers."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """Return the commands that install an extra, for a released package and for a checkout.

    Examples
    --------
    >>> install_hint("fast")
    "pip install 'ghrr[fast]' or, from a checkout, pip install -e '.[fast]'"
    """
    return f"pip install 'ghrr[{extra}]' or, from a checkout, pip install -e '.[{extra}]'"
