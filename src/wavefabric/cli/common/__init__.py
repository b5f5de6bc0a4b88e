"""What commands share: options, ranks, parsing, printing, files, progress and ends; imports no command."""
