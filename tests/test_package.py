"""What is installed is what the tree holds, and importing it starts nothing."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import mypy.main
import pytest

import shardwise as sw
from house.floors import FLOORS, LATE_FILES, ROOT, matches
from house.source import Source, read_tree
from shardwise import tensor
from shardwise.backend import dtypes
from shardwise.tensor import function_form

# The build backend is called as pip calls it (PEP 517), without an isolated environment, which would
# have to be downloaded.
BUILD = "import sys, setuptools.build_meta as b; print('built:' + getattr(b, sys.argv[1])(sys.argv[2]))"
NOT_SOURCE = (".git", ".venv*", ".cache", "*.egg-info", "build", "dist", "site", "__pycache__", ".*_cache")

# Reports, as JSON, what importing the modules named in the arguments did besides.
WATCHED_IMPORT = """
import importlib, json, os, sys, threading
import ml_dtypes, numpy  # they read the environment themselves
started, read = [], []
starting = {"socket.connect", "socket.bind", "subprocess.Popen", "os.fork", "os.posix_spawn", "os.putenv",
            "os.unsetenv", "os.mkdir", "mmap.__new__"}
def watch(event, args):
    if event in starting or (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")):
        started.append(f"{event}{args}")
sys.addaudithook(watch)
start = threading.Thread.start
threading.Thread.start = lambda thread: (started.append("thread()"), start(thread))
class Watched(type(os.environ)):
    def __getitem__(self, key):
        frame = sys._getframe(1)
        while frame.f_globals["__name__"] in ("os", "collections.abc", "_collections_abc"):
            frame = frame.f_back
        if frame.f_globals["__name__"].startswith("shardwise"):
            read.append(f"{key} by {frame.f_globals['__name__']}")
        return super().__getitem__(key)
before = dict(os.environ)
os.environ.__class__ = Watched
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps({"started": started, "read": read, "modules": sorted(sys.modules),
                  "threads": threading.active_count(), "changed": dict(os.environ) != before}))
"""


def run(*command: str | Path, cwd: Path, **environ: str) -> str:
    """Run a command to its end and return what it printed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(hook: str, tree: Path, out: Path) -> Path:
    """Call a hook of the build backend in a tree and return the file that it made."""
    out.mkdir(exist_ok=True)
    printed = run(sys.executable, "-c", BUILD, hook, out, cwd=tree)
    name = re.search(r"^built:(.+)$", printed, re.MULTILINE)
    assert name is not None, printed
    return out / name[1]


def packaged(source: Source) -> str:
    """The path that a file of the tree has inside the wheel."""
    return source.path.removeprefix("src/") if source.path.startswith("src/") else f"shardwise/{source.path}"


@pytest.fixture(scope="module")
def house() -> list[Source]:
    return [source for source in read_tree() if not source.is_script]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, since building writes into it."""
    copy = tmp_path_factory.mktemp("clone") / "shardwise"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("build_wheel", tree, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel was installed, alone."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, "--target", target, wheel, cwd=target)
    return target


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("shardwise/")]
        return {name: archive.read(name) for name in names}


def test_wheel_holds_every_module(wheel: Path, house: list[Source]) -> None:
    files = contents(wheel)
    expected = {packaged(source): source.text.encode() for source in house}
    for file in (ROOT / "backend" / "kernels").rglob("*.cu*"):
        if file.suffix not in (".cu", ".cuh"):
            continue  # a compiled kernel in __pycache__, whose name has such a part
        expected[f"shardwise/{file.relative_to(ROOT).as_posix()}"] = file.read_bytes()
    assert expected.keys() | {"shardwise/py.typed"} == files.keys()
    assert {name: files[name] for name in expected} == expected


def test_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
        entry_points = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
        licenses = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(re.findall(r"^Provides-Extra: (.+)$", text, re.M)) == set(project["optional-dependencies"])
    assert "Requires-Python: >=3.11" in text
    required = {name.lower() for name in re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", text, re.M)}
    assert required == {re.split(r"[<>=]", line)[0].lower() for line in project["dependencies"]}
    assert "torch" not in required
    assert "shardwise = shardwise.launch.cli:main" in entry_points
    assert len(licenses) == 1


def test_sdist_builds_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    sdist = build("build_sdist", tree, tmp_path)
    with tarfile.open(sdist) as archive:
        # Pythons before 3.11.4 have no filters and ignore this.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(tmp_path)
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    # The links have become folders, so the sdist also unpacks where links do not exist.
    assert not any(path.is_symlink() for path in unpacked.rglob("*"))
    assert contents(build("build_wheel", unpacked, tmp_path / "out")) == contents(wheel)


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_a_child_process_imports_the_installed_package(
    kind: str, tree: Path, installed: Path, tmp_path: Path, house: list[Source]
) -> None:
    target = installed
    expected = installed / "shardwise"
    if kind == "editable":
        target = tmp_path / "target"
        with zipfile.ZipFile(build("build_editable", tree, tmp_path)) as archive:
            archive.extractall(target)
        expected = tree / "src" / "shardwise"
    # Ranks are started by mpiexec with another working directory and no knowledge of the tree.
    code = (
        "import site, sys; site.addsitedir(sys.argv[1]); sys.path.insert(0, sys.path.pop())\n"
        "import importlib; modules = [importlib.import_module(name) for name in sys.argv[2:]]\n"
        "print(*(module.__file__ for module in modules), sep='\\n')"
    )
    folders = ["shardwise", *(f"shardwise.{folder}" for folder in FLOORS)]
    printed = run(sys.executable, "-P", "-c", code, target, *folders, cwd=Path("/"))
    assert printed.split() == [
        str(expected.joinpath(*name.split(".")[1:], "__init__.py")) for name in folders
    ]


def test_type_checker_sees_every_file(house: list[Source], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    sources, options = mypy.main.process_options([])
    assert {(source.module, Path(source.path or "").resolve()) for source in sources} == {
        (source.module, ROOT / source.path) for source in house
    }
    assert options.disallow_any_generics
    assert options.warn_return_any
    assert options.disallow_untyped_defs


def test_importing_starts_nothing(house: list[Source], tmp_path: Path) -> None:
    names = [source.module for source in house if not matches(source.path, LATE_FILES)]
    names = [name for name in names if not name.endswith("__main__")]
    assert {"shardwise", *(f"shardwise.{folder}" for folder in FLOORS)} <= set(names)
    did = json.loads(run(sys.executable, "-B", "-c", WATCHED_IMPORT, *names, cwd=tmp_path))
    slow = {"mpi4py", "numba", "llvmlite", "cupy", "tqdm", "scipy", "torch", "safetensors"}
    assert slow & set(did.pop("modules")) == set()
    assert did == {"started": [], "read": [], "threads": 1, "changed": False}


def test_the_watch_sees_what_an_import_does(tmp_path: Path) -> None:
    (tmp_path / "shardwise_spoiled.py").write_text(
        "import os, threading, mpi4py\nos.getenv('HOME'); 'X' in os.environ; os.environ['A_B'] = '1'\n"
        "open('made', 'w').close(); threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    code = "import sys; sys.path.insert(0, '.')\n" + WATCHED_IMPORT
    did = json.loads(run(sys.executable, "-B", "-c", code, "shardwise_spoiled", cwd=tmp_path))
    assert "mpi4py" in did["modules"]
    assert did["read"] == ["HOME by shardwise_spoiled", "X by shardwise_spoiled"]
    assert [event.split("(")[0] for event in did["started"]] == ["os.putenv", "open", "thread"]
    assert (did["threads"], did["changed"]) == (2, True)


def test_the_roof_shows_every_public_name(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "import shardwise as sw\n"
        "print(sorted(name for name in sys.modules if name.startswith('shardwise.') or name == 'numpy'))\n"
        "print([name for name in sw.__all__ if name not in dir(sw) or not hasattr(sw, name)])\n"
        "from shardwise import *\n"
        "print(exp is sw.exp, mode.__name__, len(dir(sw)) == len(set(dir(sw))), hasattr(sw, 'nothing'))"
    )
    assert run(sys.executable, "-c", code, cwd=tmp_path) == "[]\n[]\nTrue mode True False\n"


def test_type_checkers_see_what_the_roof_loads() -> None:
    tree = ast.parse((ROOT / "src" / "shardwise" / "__init__.py").read_text(encoding="utf-8"))
    shown: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("shardwise"):
            shown |= {name.asname or name.name: (node.module, name.name) for name in node.names}
    assert sorted({*shown, "__version__"}) == sorted(sw.__all__)
    assert len(sw.__all__) == len(set(sw.__all__))
    for name, (home, there) in shown.items():
        if name != "tensor":  # the package, which can be called
            assert getattr(sw, name) is getattr(importlib.import_module(home), there), name


def test_the_roof_offers_all_functions_of_tensors() -> None:
    below = {
        "GraphTask", "RemovableHandle", "WeightGradients", "MemoryStats", "MemoryTrack", "backward",
        "backward_inputs", "current_task", "function_form", "intercept", "next_draw", "row_window",
        "torch_autograd",
    }  # fmt: skip
    assert {*tensor.__all__, *function_form.__all__, *dtypes.__all__} - below <= set(sw.__all__)
