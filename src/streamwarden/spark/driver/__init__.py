"""The parts of a driver."""
