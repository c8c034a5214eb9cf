"""Find the MPI that mpi4py uses and the mpiexec that belongs to it.

Two MPIs on one machine are the classic trap: an mpiexec of the one starts n processes, the library of the
other cannot see it, and each process thinks that it is rank 0 of 1. So the launcher asks mpi4py which library
it loads and takes only an mpiexec of the same make.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shardwise.backend.errors import LaunchError

__all__ = [
    "Flavour",
    "MpiInstallation",
    "find_library",
    "find_mpi",
    "flavour_of_library",
    "flavour_of_mpiexec",
]

Flavour = Literal["mpich", "openmpi", "intel"]

NAMES: dict[Flavour, str] = {"mpich": "MPICH", "openmpi": "Open MPI", "intel": "Intel MPI"}

INSTALL = "pip install 'shardwise[mpich]' (or 'shardwise[openmpi]') brings one"

# Runs in a child: the launcher itself must never load MPI, and a library that crashes while loading must not
# take the launcher along.
_PROBE = """
import json
import mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI
version = MPI.Get_library_version()
try:
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "libmpi" in line.rpartition("/")[2]}
except OSError:
    paths = set()
print(json.dumps([version.rstrip(chr(0)), sorted(paths)]))
"""

_PROBE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class MpiInstallation:
    """An MPI library and the mpiexec that goes with it.

    Attributes
    ----------
    flavour : Flavour
        Which make of MPI.
    version : str
        First line of what the library says of itself.
    mpiexec : str
        Path of the launcher, of the same make.
    note : str or None
        What the user should know, for example that the mpiexec on PATH belongs to another MPI.
    """

    flavour: Flavour
    version: str
    mpiexec: str
    note: str | None = None


def find_mpi(mpiexec: str | None = None) -> MpiInstallation:
    """Find the MPI library that mpi4py loads, and its mpiexec.

    Parameters
    ----------
    mpiexec : str, optional
        A path or name to use instead of searching. It is checked all the same.

    Returns
    -------
    MpiInstallation

    Raises
    ------
    LaunchError
        If mpi4py or an MPI library is missing, or no mpiexec of the same make can be found.

    Notes
    -----
    Starts two short child processes (about 0.1 s). Looks beside the library first, then in the environment of
    this Python, then on PATH.
    """
    version, library_paths = _probe_library()
    flavour = flavour_of_library(version)
    first_line = version.splitlines()[0].strip() if version else "an unnamed MPI"
    if flavour is None:
        raise LaunchError(
            f"mpi4py uses {first_line!r}, which `shardwise run` does not know how to start. "
            "Start the script with that MPI's own launcher instead, for example `srun -n 4 python script.py`."
        )
    if mpiexec is not None:
        return MpiInstallation(flavour, first_line, _checked(mpiexec, flavour, first_line))
    foreign: list[str] = []
    for candidate in _candidates(library_paths):
        found = flavour_of_mpiexec(candidate)
        if found == flavour:
            return MpiInstallation(flavour, first_line, candidate, _path_note(candidate, flavour))
        if found is not None:
            foreign.append(f"{candidate} ({NAMES[found]})")
    seen = f" Found only {', '.join(foreign)}, which cannot start it." if foreign else " Found none at all."
    raise LaunchError(
        f"mpi4py uses {first_line!r}, but no mpiexec of {NAMES[flavour]} is beside that library, in "
        f"{Path(sys.prefix) / 'bin'} or on PATH.{seen} Install the whole of one MPI: {INSTALL}; "
        "or name the right one with --mpiexec PATH."
    )


def find_library() -> tuple[str, Flavour | None]:
    """Say which MPI library mpi4py loads, in its own words, and its make; None if it is not one of ours.

    Raises
    ------
    LaunchError
        If mpi4py or an MPI library is missing.
    """
    version, _ = _probe_library()
    return version, flavour_of_library(version)


def flavour_of_library(version: str) -> Flavour | None:
    """Tell the make of MPI from what ``MPI_Get_library_version`` says; None if it is not one of ours."""
    if "Open MPI" in version or "Open RTE" in version:
        return "openmpi"
    if "Intel(R) MPI" in version:
        return "intel"
    if "CRAY" in version.upper():
        return None  # started by srun or PALS; there is no Hydra
    if "MPICH" in version or "MVAPICH" in version:
        return "mpich"
    return None


def flavour_of_mpiexec(mpiexec: str) -> Flavour | None:
    """Tell the make of MPI from what ``mpiexec --version`` says; None if it does not run or is not known."""
    try:
        answer = subprocess.run(
            [mpiexec, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_SECONDS,
            check=False,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    if "Open MPI" in answer or "OpenRTE" in answer or "PRRTE" in answer or "Open RTE" in answer:
        return "openmpi"
    if "Intel(R) MPI" in answer:
        return "intel"
    if "HYDRA" in answer or "MPICH" in answer or "MVAPICH" in answer:
        return "mpich"
    return None


def _probe_library() -> tuple[str, list[str]]:
    """Ask a short child process which MPI library mpi4py loads, and from where."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LaunchError(
            f"importing mpi4py.MPI did not end within {_PROBE_SECONDS:.0f} s; "
            f'try {sys.executable} -c "from mpi4py import MPI" by hand'
        ) from error
    complaint = child.stderr.decode(errors="replace").strip()
    if child.returncode == 0:
        version, paths = json.loads(child.stdout.decode().strip().splitlines()[-1])
        return version, paths
    if "No module named 'mpi4py'" in complaint:
        raise LaunchError(f"more than one rank needs mpi4py, which {sys.executable} cannot import: {INSTALL}")
    if "cannot load MPI library" in complaint or "libmpi" in complaint:
        raise LaunchError(f"mpi4py is installed but finds no MPI library: {INSTALL}")
    last = complaint.splitlines()[-1] if complaint else f"exit status {child.returncode}"
    raise LaunchError(f"mpi4py cannot load its MPI library: {last}. If the MPI is broken, {INSTALL}")


def _candidates(library_paths: list[str]) -> list[str]:
    """Every mpiexec worth asking, best first, each once."""
    names = ("mpiexec", "mpirun", "mpiexec.hydra")
    places: list[str] = []
    for library in library_paths:
        # <prefix>/lib/libmpi.so, or <prefix>/lib/release/libmpi.so with Intel MPI
        places += [str(parent / "bin") for parent in list(Path(library).parents)[1:3]]
    places.append(str(Path(sys.prefix) / "bin"))
    found = [shutil.which(name, path=place) for place in places for name in names]
    on_path = (*names, "mpiexec.mpich", "mpiexec.openmpi", "mpirun.mpich", "mpirun.openmpi")
    found += [shutil.which(name) for name in on_path]
    return list(dict.fromkeys(path for path in found if path is not None))


def _checked(mpiexec: str, flavour: Flavour, version: str) -> str:
    """The path of the mpiexec that the user named, if it fits the library."""
    path = shutil.which(mpiexec)
    if path is None:
        raise LaunchError(f"--mpiexec {mpiexec}: no such program")
    found = flavour_of_mpiexec(path)
    if found != flavour:
        made_by = f"belongs to {NAMES[found]}" if found else "does not say which MPI it belongs to"
        raise LaunchError(
            f"--mpiexec {path} {made_by}, but mpi4py uses {version!r}: every process would think that it is "
            f"rank 0 of 1. Leave --mpiexec out to take the one of {NAMES[flavour]}."
        )
    return path


def _path_note(chosen: str, flavour: Flavour) -> str | None:
    """A line for the user if what they would get by typing ``mpiexec`` is another MPI."""
    typed = shutil.which("mpiexec")
    if typed is None or os.path.realpath(typed) == os.path.realpath(chosen):
        return None
    found = flavour_of_mpiexec(typed)
    if found is None or found == flavour:
        return None
    return (
        f"the mpiexec on PATH ({typed}) belongs to {NAMES[found]}, but mpi4py uses {NAMES[flavour]}; "
        f"using {chosen}"
    )
