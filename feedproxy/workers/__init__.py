"""Several workers as one proxy: what a worker is given, and how it speaks to the others."""
