"""Arguments in, exit code out: one file per command group."""
