"""The records of a drill: the journal and the records in it."""
