"""Worker processes of one machine, and the exchange between them."""
