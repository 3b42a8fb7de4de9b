"""Where verdicts are kept: with their evidence, in versions, and with secrets masked before anything is stored."""
