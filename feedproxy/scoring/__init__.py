"""How readers behave, by what they asked and were answered: findings, and a grade."""
