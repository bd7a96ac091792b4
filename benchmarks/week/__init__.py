"""The polling week: what origins and readers are spared by a cache between them."""
