"""``python -m bsr_gemm ..`` is the command ``bsr ..``."""

from __future__ import annotations

import sys

from ._lib._native import command


def main() -> int:
    """Runs the command with the arguments of this process."""
    return command([sys.executable, "-m", "bsr_gemm"], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
