"""Who may run a stream, how it is started, stopped and restarted, and how its checkpoint is copied."""
