"""Block-sparse products by other people's libraries, timed beside `bsr bench`. README.md says how to run it."""
