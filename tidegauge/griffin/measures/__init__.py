"""Griffin rules as analyzers with mergeable states: one module for each kind of state."""
