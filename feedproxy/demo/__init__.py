"""Demonstration: the same polls of simulated readers, sent directly to origins and through feedproxy."""
