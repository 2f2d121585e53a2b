"""A stream as its file declares it. Jobs import `StreamSpec` from here."""

from streamwarden.stream.spec import StreamSpec

__all__ = ["StreamSpec"]
