"""The source that reads folders of files."""
