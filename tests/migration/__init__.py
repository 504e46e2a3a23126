"""Migrations of a user: first steps with other tools, run by the tools, next to the same steps with Tidegauge."""
