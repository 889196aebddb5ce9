"""Every estimator passes scikit-learn's own checks."""

from __future__ import annotations

import subprocess
import sys
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


def test_core_needs_no_scikit_learn_and_estimators_name_the_extra() -> None:
    code = (
        "import sys, importlib.abc\n"
        "class Refuse(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'sklearn', 'scipy'}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import ghrr.learn.ridge, ghrr.learn.prototypes, ghrr.learn.softmax, ghrr.learn.probabilities\n"
        "try:\n"
        "    ghrr.learn.HDClassifier\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ghrr[learn]" in done.stdout
