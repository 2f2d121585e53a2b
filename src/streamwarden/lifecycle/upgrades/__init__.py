"""The upgrade of a stream's job: what a new version changes, what Spark does with that, and what is done when. Pure."""
