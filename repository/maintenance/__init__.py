"""Maintenance of a repository: retention, integrity checks, backups."""
