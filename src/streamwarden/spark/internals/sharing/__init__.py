"""A JVM that several Python processes use, each by a gateway of its own."""
