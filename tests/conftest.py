"""Plain ``pytest`` runs everything: serial tests here, ``@pytest.mark.mpi`` tests in worlds of 1 to 4 ranks.

See ``harness/__init__.py`` for how, and for the options.
"""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["harness.plugin"]

# Random examples that differ from run to run, or from rank to rank, would make failures impossible to repeat.
# The time of an example says little on a machine with more ranks than cores.
settings.register_profile("shardwise", derandomize=True, deadline=None, database=None)
settings.load_profile("shardwise")
