"""Servers of the tests' own, and the jars that they need."""
