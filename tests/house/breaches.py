"""Small sources that break each rule, and what the rule says of them; and sources that break none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from house import contents, imports
from house.source import Source

Rule = Callable[[dict[str, Source]], Iterator[str]]

RULES: tuple[Rule, ...] = (
    imports.upward_import,
    imports.sideways_import,
    imports.import_cycle,
    imports.private_import,
    imports.relative_import,
    imports.short_name_import,
    imports.star_import,
    imports.third_party_import,
    imports.torch_import,
    imports.late_import,
    contents.vague_file_name,
    contents.vague_class_name,
    contents.print_call,
    contents.busy_package,
    contents.unlisted_reexport,
    contents.missing_public_name,
)


# Rule, files by path, what it says of them. Each file stands alone unless named in one dict.
BAD: list[tuple[Rule, dict[str, str], list[str]]] = [
    (
        imports.upward_import,
        {"backend/cpu.py": "from shardwise.tensor import Tensor"},
        ["backend/cpu.py:1: backend imports upwards from tensor; move what it needs down"],
    ),
    (
        imports.upward_import,  # also inside a function, by call, for the type checker, and of a submodule
        {
            "mesh/mesh.py": "def f():\n    import shardwise.dtensor.layout",
            "nn/linear.py": "from importlib import import_module\nimport_module('shardwise.parallel.ddp')",
            "tensor/tensor.py": "import typing\nif typing.TYPE_CHECKING:\n    from shardwise.nn import A",
            "optim/adamw.py": "from shardwise import launch",
        },
        [
            "mesh/mesh.py:2: mesh imports upwards from dtensor; move what it needs down",
            "nn/linear.py:2: nn imports upwards from parallel; move what it needs down",
            "tensor/tensor.py:3: tensor imports upwards from nn; move what it needs down",
            "optim/adamw.py:1: optim imports upwards from roof; move what it needs down",
        ],
    ),
    (
        imports.upward_import,
        {
            "launch/cli.py": "from shardwise import __version__, spawn",
            "rpc/a.py": "from shardwise.errors import LayoutError",
        },
        [
            "launch/cli.py:1: launch imports upwards from roof; move what it needs down",
            "rpc/a.py:1: rpc imports upwards from roof; move what it needs down",
        ],
    ),
    (
        imports.sideways_import,
        {
            "parallel/ddp.py": "from shardwise.pipelining import Stage",
            "pipelining/stage.py": "import shardwise.parallel.ddp as ddp",
            "nn/linear.py": "from shardwise.mesh import DeviceMesh",
            "optim/adamw.py": "from shardwise.nn.module import Module",
            "mesh/mesh.py": "from shardwise.optim import AdamW",
        },
        [
            "parallel/ddp.py:1: parallel and pipelining share a floor; put what they share below",
            "pipelining/stage.py:1: pipelining and parallel share a floor; put what they share below",
            "nn/linear.py:1: nn and mesh share a floor; put what they share below",
            "optim/adamw.py:1: optim and nn share a floor; put what they share below",
            "mesh/mesh.py:1: mesh and optim share a floor; put what they share below",
        ],
    ),
    (
        imports.import_cycle,
        {
            "nn/a.py": "from shardwise.nn import b",
            "nn/b.py": "def late():\n    from shardwise.nn.c import C",
            "nn/c.py": "import shardwise.nn.a",
        },
        [
            "nn/a.py: a cycle of imports: "
            "shardwise.nn.a -> shardwise.nn.b -> shardwise.nn.c -> shardwise.nn.a; look for the seam"
        ],
    ),
    (
        imports.import_cycle,  # through the package that re-exports it
        {"nn/__init__.py": "from shardwise.nn.a import A", "nn/a.py": "from shardwise.nn import B"},
        [
            "nn/__init__.py: a cycle of imports: "
            "shardwise.nn -> shardwise.nn.a -> shardwise.nn; look for the seam"
        ],
    ),
    (
        imports.private_import,
        {
            "backend/cpu.py": "",
            "nn/linear.py": "from shardwise.tensor.tensor import _door",
            "optim/adamw.py": "import shardwise.tensor._tape",
            "mesh/mesh.py": "from shardwise.backend import cpu\ncpu._cache.clear()",
            "examples/x.py": "from shardwise.nn import _linear",
        },
        [
            "nn/linear.py:1: _door is private to tensor; make it public or do without",
            "optim/adamw.py:1: shardwise.tensor._tape is private to tensor; make it public or do without",
            "mesh/mesh.py:2: cpu._cache is private to shardwise.backend.cpu",
            "examples/x.py:1: _linear is private to nn; make it public or do without",
        ],
    ),
    (
        imports.relative_import,
        {"mesh/mesh.py": "from . import layout", "nn/a.py": "from ..backend import cpu"},
        [
            "mesh/mesh.py:1: a relative import; write the full name, shardwise.<folder>.<module>",
            "nn/a.py:1: a relative import; write the full name, shardwise.<folder>.<module>",
        ],
    ),
    (
        imports.short_name_import,
        {"nn/linear.py": "import mesh.mesh", "tests/nn/test_x.py": "from tensor import Tensor"},
        [
            "nn/linear.py:1: imports mesh by its short name; write shardwise.mesh",
            "tests/nn/test_x.py:1: imports tensor by its short name; write shardwise.tensor",
        ],
    ),
    (
        imports.star_import,
        {"nn/__init__.py": "from shardwise.nn.linear import *"},
        ["nn/__init__.py:1: imports * from shardwise.nn.linear; write the names"],
    ),
    (
        imports.third_party_import,
        {
            "backend/cpu.py": "import cupy",
            "collectives/lane.py": "def f():\n    from mpi4py import MPI",
            "nn/linear.py": "import scipy.special",
            "tensor/ops.py": "import numba as nb",
            "src/shardwise/x.py": "from tqdm import tqdm",
        },
        [
            (
                "backend/cpu.py:1: cupy belongs to "
                "backend/cuda.py, backend/*_cuda.py, collectives/device/nccl.py"
            ),
            "collectives/lane.py:2: mpi4py belongs to collectives/mpi/*.py, launch/*.py",
            "nn/linear.py:1: scipy is not a library of this house (THIRD_PARTY in tests/house/floors.py)",
            "tensor/ops.py:1: numba belongs to backend/*_cpu.py, backend/*jit.py, collectives/shm/*_cpu.py",
            "src/shardwise/x.py:1: tqdm belongs to launch/*.py",
        ],
    ),
    (
        imports.torch_import,
        {"tests/nn/test_x.py": "import torch.nn", "examples/x.py": "def f():\n    from torch import nn"},
        [
            "tests/nn/test_x.py:1: torch may be imported in benchmarks only",
            "examples/x.py:2: torch may be imported in benchmarks only",
        ],
    ),
    (
        imports.late_import,
        {
            "collectives/mpi/transport.py": "from mpi4py import MPI",
            "nn/linear.py": "def f():\n    import json",
            "mesh/mesh.py": "import importlib\nimportlib.import_module(f'{__name__}.x')",
            "optim/adamw.py": "class A:\n    def f(self):\n        from shardwise.tensor import Tensor",
        },
        [
            (
                "collectives/mpi/transport.py:1: importing mpi4py starts it; "
                "import it inside the function that needs it"
            ),
            "nn/linear.py:2: an import inside a function; put it at the top",
            "mesh/mesh.py:2: imports a computed name; write an import statement",
            "optim/adamw.py:3: an import inside a function; put it at the top",
        ],
    ),
    (
        contents.vague_file_name,
        {"nn/utils.py": "", "tests/helpers/x.py": "", "rpc/_common.py": ""},
        [
            "nn/utils.py: utils says nothing; name the idea that the file holds",
            "tests/helpers/x.py: helpers says nothing; name the idea that the file holds",
            "rpc/_common.py: _common says nothing; name the idea that the file holds",
        ],
    ),
    (
        contents.vague_class_name,
        {"rpc/agent.py": "class RpcManager: ...\nclass _BaseAgent: ...\nclass Basement: ..."},
        [
            "rpc/agent.py:1: class RpcManager; name what it is",
            "rpc/agent.py:2: class _BaseAgent; name what it is",
        ],
    ),
    (
        contents.print_call,
        {"nn/linear.py": "def f():\n    print(1)", "launch/cli.py": "print(1)"},
        ["nn/linear.py:2: print; use logging.getLogger(__name__)"],
    ),
    (
        contents.busy_package,
        {
            "nn/__init__.py": (
                "'''Doc.'''\nfrom shardwise.nn.a import A\n__all__ = ['A']\nx = 1\ndef f(): ...\nif x: ..."
            )
        },
        [f"nn/__init__.py:{line}: defines something; a package only re-exports" for line in (4, 5, 6)],
    ),
    (
        contents.unlisted_reexport,
        {"nn/__init__.py": "from shardwise.nn.a import A, B\n__all__ = ['A']"},
        ["nn/__init__.py:1: imports B but __all__ does not list it"],
    ),
    (
        contents.missing_public_name,
        {
            "nn/__init__.py": "from shardwise.nn.a import A\n__all__ = ['A', 'C']",
            "nn/a.py": "__all__ = ['A', 'a', 'a', 'x', 'y']\nx: int = 1\nclass A: ...\ndef a(): ...",
        },
        [
            "nn/__init__.py: __all__ lists C, which the file does not define",
            "nn/a.py: __all__ lists a name twice",
            "nn/a.py: __all__ lists y, which the file does not define",
        ],
    ),
]

# What all rules must let pass, since the house needs it.
GOOD = {
    "backend/__init__.py": '"""Doc."""\n\nfrom shardwise.backend.cpu import Cpu\n\n__all__ = ["Cpu"]',
    "backend/cpu.py": "import os\nimport numpy as np\nclass Cpu: ...\n_x = 1",
    "backend/cuda.py": "import cupy as cp\nfrom shardwise.backend.cpu import Cpu",
    "backend/kernels/row/norm.py": "def fused():\n    from shardwise.backend.kernels.row import norm_cpu",
    "backend/kernels/row/norm_cpu.py": "import numba\nfrom shardwise.backend.kernels.jit import njit",
    "backend/kernels/jit.py": "from numba import njit",
    "collectives/mpi/transport.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mpi4py import MPI\n"
        "def world():\n    from mpi4py import MPI\n    return MPI"
    ),
    "collectives/world.py": (
        "def world():\n    from shardwise.collectives.mpi import transport\n    return transport"
    ),
    "nn/linear.py": "from shardwise.backend import Cpu\nfrom shardwise.nn.init import _normal",
    "nn/__init__.py": "from shardwise.nn import effect as effect",
    "nn/effect.py": "__all__: list[str] = []",
    "nn/init.py": "def _normal(): ...",
    "launch/cli.py": "from shardwise import __version__",
    "src/shardwise/__init__.py": "__version__ = '1'\n__all__ = ['nn']\ndef __getattr__(name): ...",
    "src/shardwise/errors.py": "from shardwise.backend.cpu import Cpu",
    "examples/x.py": "import shardwise as sw\nfrom shardwise import nn\nfrom tqdm import tqdm\nprint(1)",
    "benchmarks/x.py": "def peer():\n    import torch\n    return torch",
    "tests/nn/test_x.py": "import scipy\nfrom house.floors import ROOT\nimport shardwise.nn",
}
