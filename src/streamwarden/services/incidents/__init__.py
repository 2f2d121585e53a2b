"""Opens, updates and resolves incidents, and records what people do about them."""
