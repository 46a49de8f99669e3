"""The command `hacs`: modules that parse arguments, call the package, and print."""
