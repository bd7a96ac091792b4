"""RFC 9111's decisions as pure functions of a shared cache, a section a file. Feed formats are unknown here."""
