"""Record-level data quality: rules reject records, fixes repair them, policies limit the counts."""
