"""Commands about health, incidents and settings."""
