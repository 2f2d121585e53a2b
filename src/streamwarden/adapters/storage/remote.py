"""What a storage that is not a disk of this host does beside reading and writing, whatever client it is reached by."""

from abc import ABC, abstractmethod


class RemoteFiles(ABC):
    """A storage whose paths are URLs."""

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """A file at another place of the same storage."""

    @abstractmethod
    def upload(self, source: str, target: str) -> None:
        """A file of this host at a place of the storage."""

    @abstractmethod
    def remove(self, path: str) -> bool:
        """A file, or a folder with all that is in it; False: there is none."""


class RenamingFiles(RemoteFiles):
    """A storage that gives a file or a folder another name at once, as a disk does."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """A file or a folder at a place where nothing is, whose folders are made if need be. Raises FileExistsError."""
