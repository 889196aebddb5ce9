"""Every estimator passes scikit-learn's own checks."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from ghrr.learn import HDClassifier, HDRegressor, KernelFeatures

pytestmark = pytest.mark.slow
SMALL = KernelFeatures(dim=64, random_state=0)


@parametrize_with_checks(
    [KernelFeatures(dim=16), HDClassifier(SMALL, random_state=0), HDRegressor(SMALL, random_state=0)]
)
def test_scikit_learn_check(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)
