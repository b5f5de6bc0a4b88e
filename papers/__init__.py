"""Tables and figures of papers, each a script with its result beside it; see README.md."""
