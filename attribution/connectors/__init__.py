"""Where evidence comes from. One file per connector."""
