"""`python3 -m benches.peers.sparse`."""

import sys

from .timed import SUITE

if __name__ == "__main__":
    sys.exit(SUITE.main())
