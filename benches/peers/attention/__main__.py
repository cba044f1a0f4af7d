"""`python3 -m benches.peers.attention`."""

import sys

from .run import main

if __name__ == "__main__":
    sys.exit(main())
