"""What a drill writes down: the journal and the records in it."""
