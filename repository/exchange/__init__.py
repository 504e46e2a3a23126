"""Bringing histories in from other tools, and handing them on."""
