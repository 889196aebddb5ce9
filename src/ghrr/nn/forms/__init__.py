r"""How tokens become the matrices Q, K and V: the forms of :math:`\sum_j P_j * W \Lambda(x_j)`.

A form takes the phases :math:`\lambda(x_j)` of the tokens and returns Q, K and V of every head. There is one for each
mode of :class:`ghrr.nn.AttentionConfig`. They differ in the positions :math:`P_j`, and so in whether row t can depend
on tokens after t.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ghrr.nn.config import AttentionConfig
from ghrr.nn.forms.base import Form
from ghrr.nn.forms.bundle import BundleForm
from ghrr.nn.forms.feature import FeatureForm
from ghrr.nn.forms.path import PathForm
from ghrr.nn.forms.representation import RepresentationForm
from ghrr.nn.forms.row import RowForm

_FORMS: dict[str, Callable[[AttentionConfig, torch.dtype], Form]] = {
    "feature": FeatureForm,
    "row": RowForm,
    "bundle": BundleForm,
    "dense": BundleForm,
    "representation": RepresentationForm,
    "path": PathForm,
}


def make_form(config: AttentionConfig, dtype: torch.dtype) -> Form:
    """Make the form of a mode."""
    return _FORMS[config.mode](config, dtype)
