from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shardwise as sw


def test_numbers_and_dtypes_at_the_roof() -> None:
    assert (sw.pi, sw.e, sw.inf) == (np.pi, np.e, np.inf)
    assert sw.nan != sw.nan
    assert sw.ones(2)[:, sw.newaxis].shape == (2, 1)
    assert isinstance(sw.float32, sw.dtype)
    assert isinstance(sw.ones(1).dtype, sw.dtype)


def test_names_of_pytorch_that_are_not_here_say_what_to_do(tmp_path: Path) -> None:
    code = "import shardwise as torch\ntorch.vmap"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1] == (
        "AttributeError: module 'shardwise' has no attribute 'vmap': operations take batches in their first "
        "dims"
    )
    for name in ("save", "amp", "utils", "promote_types", "set_printoptions", "FloatTensor", "Generator"):
        with pytest.raises(AttributeError, match=rf"^module 'shardwise' has no attribute '{name}': \w"):
            getattr(sw, name)
    with pytest.raises(AttributeError, match=r"^module 'shardwise' has no attribute 'nothing'$"):
        sw.nothing  # noqa: B018
