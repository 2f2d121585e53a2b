"""Both ends of a shared JVM: its host, which lets drivers in, and a driver that joins."""
