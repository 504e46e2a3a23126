"""Rules of pages, counts of Spark actions, and features, shared by tests."""
