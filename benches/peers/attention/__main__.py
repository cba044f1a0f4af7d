"""`python3 -m benches.peers.attention`."""

import sys

from .timed import SUITE

if __name__ == "__main__":
    sys.exit(SUITE.main())
