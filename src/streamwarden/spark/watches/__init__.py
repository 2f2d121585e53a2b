"""Threads of a driver that watch what it depends on: its JVM, the storage of its checkpoint, its lease."""
