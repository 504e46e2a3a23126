"""Spark sessions for the command line and notebooks, a bundled Java, and schemas from strings."""
