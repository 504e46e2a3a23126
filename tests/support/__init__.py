"""Rules of pages, counts of Spark actions, a repository in dictionaries, integrity, and features, shared by tests."""
