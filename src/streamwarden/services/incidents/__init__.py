"""Opens, updates and resolves incidents, and records people's actions on them."""
