"""Products of science beside cuSPARSE: `python3 -m benches.peers.sparse`."""
