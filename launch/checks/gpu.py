"""GPUs: driver, CuPy, NCCL, and who can reach whom; asked in a child process, which may crash."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwise.collectives.rank_list import rank_list
from shardwise.launch.checks.finding import Finding, fail, ok, warn
from shardwise.launch.checks.unit import size

__all__ = ["Devices", "check_gpu", "find_devices", "has_gpu", "judge_devices", "judge_sharing"]

_SECONDS = 60.0
_PROBE = """
import json
said = {"error": "", "cupy": "", "runtime": 0, "driver": 0, "nccl": 0}
said |= {name: [] for name in ("names", "ids", "memory", "free", "apart")}
try:
    import cupy
    said["cupy"] = cupy.__version__
    runtime = cupy.cuda.runtime
    said["runtime"], said["driver"] = runtime.runtimeGetVersion(), runtime.driverGetVersion()
    count = runtime.getDeviceCount()
    for device in range(count):
        properties = runtime.getDeviceProperties(device)
        said["names"].append(properties["name"].decode())
        said["ids"].append(bytes(properties["uuid"]).hex())
        with cupy.cuda.Device(device):
            free, total = runtime.memGetInfo()
        said["memory"].append(total)
        said["free"].append(free)
    said["apart"] = [[a, b] for a in range(count) for b in range(a) if not runtime.deviceCanAccessPeer(a, b)]
except Exception as error:
    said["error"] = f"{type(error).__name__}: {error}"
try:
    from cupy.cuda import nccl
    said["nccl"] = nccl.get_version()
except Exception:
    pass
print(json.dumps(said))
"""


@dataclass(frozen=True, slots=True)
class Devices:
    """What CuPy sees.

    Attributes
    ----------
    cupy : str
        Its version; empty if it cannot be imported.
    error : str
        What went wrong; empty if nothing has.
    runtime, driver, nccl : int
        Versions as CUDA and NCCL count; 0 where there is none. A driver's is the newest CUDA that it runs.
    names, ids : tuple of str
        Per device; `ids` are its UUID.
    memory, free : tuple of int
        Bytes per device.
    apart : tuple of (int, int)
        Pairs of devices that cannot read each other's memory.
    """

    cupy: str = ""
    error: str = ""
    runtime: int = 0
    driver: int = 0
    nccl: int = 0
    names: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    memory: tuple[int, ...] = ()
    free: tuple[int, ...] = ()
    apart: tuple[tuple[int, int], ...] = ()


def find_devices() -> Devices:
    """Ask CuPy, if it is installed, in a process of its own."""
    if importlib.util.find_spec("cupy") is None:
        return Devices(error="not installed")
    try:
        child = subprocess.run(
            [sys.executable, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Devices(error=f"no answer within {_SECONDS:.0f} s")
    lines = child.stdout.decode(errors="replace").strip().splitlines()
    if child.returncode or not lines:
        last = child.stderr.decode(errors="replace").strip().splitlines()
        return Devices(error=last[-1] if last else f"exit status {child.returncode}")
    said = json.loads(lines[-1])
    return Devices(
        cupy=said["cupy"],
        error=said["error"],
        runtime=said["runtime"],
        driver=said["driver"],
        nccl=said["nccl"],
        names=tuple(said["names"]),
        ids=tuple(said["ids"]),
        memory=tuple(said["memory"]),
        free=tuple(said["free"]),
        apart=tuple((a, b) for a, b in said["apart"]),
    )


def has_gpu() -> bool:
    """Say whether the system shows a GPU of NVIDIA's, without touching it."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def check_gpu() -> Iterator[Finding]:
    """Look at the GPUs of this host."""
    yield from judge_devices(find_devices(), there=has_gpu(), environ=os.environ)


def judge_devices(devices: Devices, *, there: bool, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Say what can be done with the GPUs of a host.

    Parameters
    ----------
    devices : Devices
    there : bool
        Whether the system shows a GPU, whatever CuPy says.
    environ : mapping
    """
    if not there and not devices.names:
        if devices.cupy:
            yield ok("GPU", f"no GPU; CuPy {devices.cupy} is installed")
        else:
            yield ok("GPU", "no GPU")
        return
    if not devices.names:
        if not devices.cupy:
            yield warn(
                "GPU",
                f"there is one, but CuPy: {devices.error}",
                "pip install 'shardwise[cuda12]', or [cuda13]",
            )
        elif environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
            yield warn("GPU", "hidden by CUDA_VISIBLE_DEVICES", "unset CUDA_VISIBLE_DEVICES")
        else:
            yield fail(
                "GPU",
                f"there is one, but CuPy {devices.cupy} says {devices.error or 'that there is none'}",
                f"install a driver that runs CUDA {_cuda(devices.runtime)}; this one runs "
                f"{_cuda(devices.driver)}",
            )
        return
    what = ", ".join(
        f"{name} {size(total)}" for name, total in zip(devices.names, devices.memory, strict=True)
    )
    yield ok("GPU", what)
    if devices.driver // 1000 < devices.runtime // 1000:
        yield fail(
            "driver",
            f"runs CUDA {_cuda(devices.driver)}, CuPy {devices.cupy} is built for {_cuda(devices.runtime)}",
            f"pip install cupy-cuda{devices.driver // 1000}x in its place, or update the driver",
        )
    else:
        yield ok(
            "driver", f"runs CUDA {_cuda(devices.driver)}; CuPy {devices.cupy} for {_cuda(devices.runtime)}"
        )
    used = [
        i
        for i, (free, total) in enumerate(zip(devices.free, devices.memory, strict=True))
        if free < total // 2
    ]
    if used:
        yield warn(
            "GPU memory",
            f"more than half of device {', '.join(map(str, used))} is taken",
            "nvidia-smi shows by whom; choose other devices by CUDA_VISIBLE_DEVICES",
        )
    if devices.nccl:
        yield ok("NCCL", _nccl(devices.nccl))
    elif len(devices.names) > 1:
        cuda = devices.runtime // 1000
        yield warn("NCCL", "none: device arrays go through host memory", f"pip install nvidia-nccl-cu{cuda}")
    if devices.apart:
        pairs = ", ".join(f"{a}-{b}" for b, a in devices.apart[:4])
        yield warn(
            "peer access",
            f"devices {pairs} cannot read each other's memory, so what they send goes through the host",
            "see nvidia-smi topo -m; in containers and virtual machines ask for peer access (ACS off)",
        )
    elif len(devices.names) > 1:
        yield ok("peer access", f"between all {len(devices.names)} devices")


def judge_sharing(used: Sequence[tuple[int, str, str]]) -> Finding:
    """Say whether each rank has a device of its own.

    Parameters
    ----------
    used : sequence of (int, str, str)
        Per rank: the rank, its host, the UUID of the device that it would use; empty for none.
    """
    users: dict[tuple[str, str], list[int]] = {}
    for rank, host, device in used:
        if device:
            users.setdefault((host, device), []).append(rank)
    for (host, _), ranks in users.items():
        if len(ranks) > 1:
            return warn(
                "devices of ranks",
                f"{rank_list(ranks)} share one GPU of {host}",
                "start as many ranks per host as it has GPUs; or mean it: --share-gpus",
            )
    return ok("devices of ranks", "one for each" if users else "none")


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}" if version else "none"


def _nccl(version: int) -> str:
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"
