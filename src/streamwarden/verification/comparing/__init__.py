"""The comparison itself: columns, keys and samples of rows, records of a topic, the books of an audit."""
