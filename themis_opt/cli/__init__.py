"""Command line: each subcommand parses, makes one library call, and writes."""
