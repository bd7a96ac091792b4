"""What the commands need beside the proxy: the admin listener of a running one, a feed's address, the desktop."""
