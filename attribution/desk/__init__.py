"""One file per thing that people do."""
