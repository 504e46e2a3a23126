"""Rules of pages, counts of Spark actions, integrity, and features, shared by tests."""
