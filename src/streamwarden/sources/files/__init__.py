"""The kind of source `files`: folders of files."""

from streamwarden.sources.files.source import FilesSource

__all__ = ["FilesSource"]
