"""The Griffin DSL: rules of data quality as text, their plans, measures, sources and sinks."""
