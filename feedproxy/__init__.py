"""feedproxy: a shared HTTP cache made for feeds, in front of many readers."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("feedproxy")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0"
