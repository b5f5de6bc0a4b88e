"""Code that all commands share: options, ranks, parsing, printing, files, progress. Imports no command."""
