"""Names of devices."""

from __future__ import annotations

import pickle

import pytest

import shardwise as sw
from shardwise.errors import DeviceError


def test_a_device_knows_its_parts() -> None:
    assert sw.device("cpu") == "cpu"
    assert (sw.device("cpu").type, sw.device("cpu").index) == ("cpu", None)
    for device in (sw.device("cuda:1"), sw.device("cuda", 1), sw.device(1), sw.device(sw.device("cuda:1"))):
        assert device == "cuda:1"
        assert (device.type, device.index) == ("cuda", 1)
        assert pickle.loads(pickle.dumps(device)) == device
        assert isinstance(device, sw.device)


@pytest.mark.parametrize("name", ["tpu", "cuda:x", "cuda:", "", "cpu:-1"])
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        sw.device(name)
    assert str(caught.value) == f"there is no device {name!r}: wanted 'cpu', 'cuda', 'cuda:1' or 'shape'"


def test_tensors_have_one_and_take_one() -> None:
    x = sw.ones(2, device=sw.device("cpu"))
    assert isinstance(x.device, sw.device)
    assert x.to(x.device) is x
    assert x.to("shape").device.type == "shape"


def test_cuda_can_be_asked_without_a_gpu() -> None:
    assert sw.cuda.is_available() == (sw.cuda.device_count() > 0)
    if not sw.cuda.is_available():
        for call in (
            sw.cuda.synchronize,
            lambda: sw.cuda.set_device(0),
            lambda: sw.cuda.set_device("cuda:0"),
        ):
            with pytest.raises(DeviceError, match="cannot use device 'cuda"):
                call()
    sw.cuda.manual_seed_all(7)
    assert sw.initial_seed() == 7
