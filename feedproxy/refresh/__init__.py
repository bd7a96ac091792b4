"""The one path to the origin: single flight, budgets, and the guard of the good copy."""
