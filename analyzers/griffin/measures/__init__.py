"""Griffin's rules as analyzers, whose states add: one module for each kind of state."""
