"""RFC 9111 as a shared cache, a section a file. Decides; never does. Knows no feeds."""
