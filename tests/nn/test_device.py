"""Training on a device that is emulated on the CPU gives the losses of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from device_training import MODELS, losses
from emulated_cuda import find_compiler, install, launches
from shardwise.backend.kernels.device.launch_cuda import device_table
from shardwise.backend.kernels.device_table import LAUNCHERS

EXPECTED = {
    "gpt": {"attention_weights", "layer_norm_backward", "dropout_forward", "scatter_rows", "update_each"},
    "images": {"take_windows", "maximum_forward", "normalize_planes", "resample_forward", "update_each"},
    "sequences": {"lstm_step", "gru_step_backward", "glu_forward", "update_each"},
}


@pytest.mark.skipif(find_compiler() is None, reason="there is no C++ compiler (apt-get install g++)")
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_the_cpu(name: str) -> None:
    expected = losses(name, "cpu")
    launches.clear()
    with install():
        actual = losses(name, "cuda")
    device_table.forget()
    for launch in LAUNCHERS:
        launch.forget()
    assert {launch.name for launch in launches} >= EXPECTED[name]
    np.testing.assert_allclose(actual, expected, rtol=2e-5)
    assert len(set(expected)) == len(expected)
