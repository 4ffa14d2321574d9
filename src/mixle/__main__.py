"""``python -m mixle``: the same as the command ``mixle``."""

from __future__ import annotations

import sys

from mixle.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
