"""``python -m shardwise`` is the command ``shardwise``."""

from __future__ import annotations

import sys

from shardwise.launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
