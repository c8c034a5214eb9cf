"""Training on a device gives the losses of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from device_training import MODELS, losses


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_the_cpu(name: str) -> None:
    np.testing.assert_allclose(losses(name, "cuda"), losses(name, "cpu"), rtol=1e-3)
