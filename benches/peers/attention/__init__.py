"""Attention of this package beside that of other libraries: `python3 -m benches.peers.attention`."""
