"""Demonstration: the same polls of simulated readers are sent directly to origins and through feedproxy."""
