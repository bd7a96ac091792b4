"""Access control for clients, and credentials for origins."""
