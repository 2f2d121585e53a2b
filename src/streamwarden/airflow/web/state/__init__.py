"""What the tab State of a stream's page and the API show of savepoints and state, and what they take."""
