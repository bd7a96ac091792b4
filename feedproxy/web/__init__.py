"""What the operator sees: admin listener, metrics, log, status page."""
