"""Checks: what metrics are expected to be, as pure functions of what was measured."""
