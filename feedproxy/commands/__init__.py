"""The commands of `feedproxy`.

Each module has `register(subparsers)`, which declares a command, and a function that runs it.
"""
