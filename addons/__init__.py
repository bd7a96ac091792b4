"""The addons of feedproxy, one per file."""
