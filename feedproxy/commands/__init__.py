"""The commands of `feedproxy`. Each module has `register(subparsers)`, and a function that runs the command."""
