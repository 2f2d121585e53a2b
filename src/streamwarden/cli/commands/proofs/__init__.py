"""Commands that prove or show that the output is right."""
