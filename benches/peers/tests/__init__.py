"""Tests of what times other libraries: `python3 -m unittest benches.peers.tests.test_host`."""
