"""The commands of `feedproxy`, a module each: `register(subparsers)` declares it, `run(args)` does it."""
