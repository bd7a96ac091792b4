"""Worker processes of one machine, and their exchange."""
