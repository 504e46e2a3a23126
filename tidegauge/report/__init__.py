"""A repository as one page for mail and archives."""
