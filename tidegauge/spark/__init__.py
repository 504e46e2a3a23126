"""Spark sessions for the command line and notebooks, and a bundled Java."""
