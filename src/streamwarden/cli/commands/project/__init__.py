"""Commands about a project and its files."""
