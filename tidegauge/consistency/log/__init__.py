"""The query log: client, table, Avro schemas, decoding, sampling, retention."""
