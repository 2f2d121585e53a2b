"""The kind of sink `iceberg`: a table whose snapshots name the query and the batch that made them."""
