"""The commands, by what they act on."""
