"""Servers that the tests start, and the jars that they need."""
