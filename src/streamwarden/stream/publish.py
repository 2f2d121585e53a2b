"""How often a stream's progress is published as an Airflow asset event: the block `publish` of its file."""

from dataclasses import dataclass

from streamwarden.errors import InvalidValue
from streamwarden.units import Seconds

__all__ = ["PublishSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSpec:
    """When [an asset event](../how-to/assets.md) says how far the stream has come. Without either, none does."""

    every: Seconds | None = None
    """publish the stream's progress as an [asset event](../how-to/assets.md) this often, if there is any; null: by
    `batches`, or not at all"""
    batches: int | None = None
    """publish it after so many new batches; null: by `every`, or not at all"""

    def __post_init__(self) -> None:
        if self.every is not None and self.batches is not None:
            raise InvalidValue(str(self.batches), key="batches", allowed="one of every and batches")
        if self.every is not None and self.every <= 0:
            raise InvalidValue(f"{self.every:g} s", key="every", allowed="a duration above 0")
        if self.batches is not None and self.batches < 1:
            raise InvalidValue(str(self.batches), key="batches", allowed="a whole number of at least 1")

    @property
    def wanted(self) -> bool:
        """Whether the stream publishes anything."""
        return self.every is not None or self.batches is not None
