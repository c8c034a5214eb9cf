"""The folder of compiled kernels: where it is, whom it trusts, and how processes share the work."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from shardwise.backend.kernels import cache, jit
from shardwise.backend.kernels.cache import candidate_roots, compile_lock, first_writable
from shardwise.backend.kernels.jit import cache_key, digest_of


def test_candidates_are_the_package_then_the_user_then_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    temporary = Path(tempfile.gettempdir()) / f"shardwise-{os.getuid()}"
    package = Path(cache.__file__).parent / "__pycache__"
    assert candidate_roots() == (package, Path("/somewhere/.cache/shardwise"), temporary)
    monkeypatch.setenv("XDG_CACHE_HOME", "/else")
    assert candidate_roots() == (package, Path("/else/shardwise"), temporary)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert candidate_roots()[1] == Path("/somewhere/.cache/shardwise")


def test_the_first_writable_folder_is_taken_and_is_private(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be: nobody can write below it, not even root")
    folder = first_writable([blocked / "cache", tmp_path / "good", tmp_path / "other"], "key")
    assert folder == tmp_path / "good" / "fused-key"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert not (tmp_path / "other").exists()
    assert list(folder.iterdir()) == []
    assert first_writable([blocked / "cache"], "key") is None


def test_folders_that_others_may_write_are_not_trusted(tmp_path: Path) -> None:
    shared, planted = tmp_path / "shared", tmp_path / "planted"
    shared.mkdir()
    shared.chmod(0o777)
    planted.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    open_inside = tmp_path / "open" / "fused-key"
    open_inside.mkdir(parents=True)
    open_inside.chmod(0o770)
    good = tmp_path / "good"
    assert first_writable([shared, planted, tmp_path / "open", good], "key") == good / "fused-key"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder that belongs to someone else")
def test_folders_of_others_are_not_trusted(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 12345, 12345)
    assert first_writable([foreign], "key") is None


def test_editing_a_source_changes_the_key(tmp_path: Path) -> None:
    source = tmp_path / "some_cpu.py"
    source.write_text("x = 1\n")
    before = digest_of([source])
    assert digest_of([source]) == before
    source.write_text("x = 2\n")
    assert digest_of([source]) != before
    assert len(before) == 20


def test_the_key_is_of_every_fused_source(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    monkeypatch.setattr(jit, "digest_of", lambda sources: seen.extend(sources) or "digest")
    assert cache_key.__wrapped__() == "digest"
    folder = Path(jit.__file__).parent
    fused = {path.name for path in folder.rglob("*_cpu.py")}
    assert len(fused) >= 10
    assert {path.name for path in seen} == {*fused, "jit.py", "optimizer_formula.py", "quantile.py"}


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with compile_lock(path, timeout=1.0) as first:
        assert first
        started = time.monotonic()
        with compile_lock(path, timeout=0.1) as second:
            assert not second
        assert 0.1 <= time.monotonic() - started < 5.0
    with compile_lock(path, timeout=0.1) as third:
        assert third


def test_no_lock_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with compile_lock(tmp_path / "missing" / "lock", timeout=1.0) as held:
        assert not held

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError("no locks on this file system")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with compile_lock(tmp_path / "lock", timeout=1.0) as held:
        assert not held


# Compiles softmax into the folder given, and prints how many kernels numba itself compiled.
PROCESS = """
import sys
from pathlib import Path
from shardwise.backend.kernels import jit
jit.cache_directory = lambda key: Path(sys.argv[1]) if sys.argv[1] else None
import numba.core.event as event
with event.install_recorder("numba:compile") as recorder:
    import numpy as np
    from shardwise.backend.kernels.row.softmax import softmax_forward
    y = softmax_forward.fused(np.zeros((2, 4), np.float32))
assert (y == 0.25).all()
starts = [event.data["dispatcher"].py_func.__name__ for _, event in recorder.buffer if event.is_start]
print(starts.count("_softmax_forward"))
"""


def start(folder: Path | str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def compiled_by(process: subprocess.Popen[str]) -> int:
    out, error = process.communicate(timeout=100)
    assert process.returncode == 0, error
    return int(out)


def test_one_of_several_processes_compiles_and_the_others_load(tmp_path: Path) -> None:
    counts = [compiled_by(process) for process in [start(tmp_path) for _ in range(2)]]
    assert sorted(counts) == [0, 1]
    kept = [path for path in tmp_path.iterdir() if path.suffix == ".bin"]
    assert len(kept) == 1
    kept[0].write_bytes(kept[0].read_bytes()[:1000])  # a damaged file is compiled again, and mended
    assert compiled_by(start(tmp_path)) == 1
    assert len(kept[0].read_bytes()) > 1000


def test_without_a_folder_each_process_compiles() -> None:
    assert compiled_by(start("")) == 1


def test_a_kernel_that_cannot_be_compiled_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_directory", lambda key: tmp_path)

    @jit.fused(lambda real: (jit.write(real, 1),))
    def impossible(x: np.ndarray) -> None:
        x[0] = no_such_name  # type: ignore[name-defined]  # noqa: F821 - the point of it

    with pytest.raises(jit.FusedUnavailableError, match=r"numba could not compile .*impossible for float32"):
        impossible(np.ones(1, np.float32))
    with compile_lock(next(tmp_path.glob("*.lock")), timeout=0.1) as held:
        assert held  # the failure let go of it


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep kernels of the tests, whose sources are in no key, out of the real folder."""
    monkeypatch.setattr(jit, "cache_directory", lambda key: None)


@pytest.mark.usefixtures("no_folder")
def test_kernels_do_not_compile_for_other_types() -> None:
    @jit.fused(lambda real: (jit.read(real, 1), jit.write(real, 1)))
    def twice(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(x.size):
            y[i] = x[i] + x[i]

    x, y = np.arange(3, dtype=np.float32), np.empty(3, np.float32)
    twice(x, y)
    x.flags.writeable = False
    twice(x, y)
    assert y.tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match="No matching definition"):
        twice(np.arange(6, dtype=np.float32)[::2], y)
    with pytest.raises(TypeError, match="No matching definition"):
        twice(x, np.empty(3))


@pytest.mark.usefixtures("no_folder")
def test_threads_that_meet_at_the_first_use() -> None:
    @jit.fused(lambda real: (jit.read(real, 1), jit.write(real, 1)))
    def thrice(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(x.size):
            y[i] = x[i] + x[i] + x[i]

    def use(rank: int) -> list[float]:
        x, y = np.full(3, rank, np.float32), np.empty(3, np.float32)
        thrice(x, y)
        return y.tolist()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(use, range(4))) == [[3.0 * rank] * 3 for rank in range(4)]
