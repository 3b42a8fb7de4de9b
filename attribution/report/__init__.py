"""Verdict in, plain strings out: one file per format. Nothing here reads a clock, a file or a terminal."""
