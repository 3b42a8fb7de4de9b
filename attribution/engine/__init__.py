"""The pure part: text and records in, events and a decision out. No clock, no files, no processes."""
