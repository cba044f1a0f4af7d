"""What tests need of Triton's interpreter, which must be chosen before Triton is imported."""

import os
import sys
import unittest


def interpret() -> None:
    """Has Triton run kernels on the CPU in this process. Raises SkipTest where it cannot."""
    if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        raise unittest.SkipTest("Triton was imported without its interpreter; run this file alone")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        import numpy as np
        import torch  # noqa: F401
        import triton  # noqa: F401
    except ImportError as missing:
        raise unittest.SkipTest(f"PyTorch and Triton are needed: {missing}") from missing
    try:
        int(np.zeros(1))  # What Triton 3.6's interpreter does to the bounds of loops.
    except TypeError as error:
        raise unittest.SkipTest("Triton's interpreter needs numpy < 2.5") from error
