"""The SQL store: tables, transactions, writing runs, reading facts, retention."""
