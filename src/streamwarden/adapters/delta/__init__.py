"""Delta tables: their log, and what delta-rs says of them."""
