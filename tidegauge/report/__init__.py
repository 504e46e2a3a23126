"""HTML reports: a repository as one page for mail and archives."""
