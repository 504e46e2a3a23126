"""The Griffin DSL: grammar, parser, syntax tree, and error messages."""
