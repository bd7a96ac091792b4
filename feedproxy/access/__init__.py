"""Access control for clients, and credentials for origins (seed 003, Feed Authentication)."""
