"""Remember and compare: the SQL store, history, anomalies."""
