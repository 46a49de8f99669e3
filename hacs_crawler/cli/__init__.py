"""The command `hacs`: one module a command, which parses arguments, calls, and prints."""
