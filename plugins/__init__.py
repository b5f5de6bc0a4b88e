"""Parts that other programs load, each with the command that makes it."""
