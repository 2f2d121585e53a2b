"""The spec of a fork as a drill stores it: without secrets, which are read from the stream's file again.

The steps of a drill may be separate processes, and the journal is for everybody to read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamwarden.config.stored_spec import spec_from_dict, spec_to_dict
from streamwarden.errors import ConfigError
from streamwarden.redaction import is_redacted, redacted, restored
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class StoredSpecs:
    """Writes and reads the specs of forks.

    Args:
        stream: the production stream's spec by name; raises ConfigError if it does not exist or its file is broken.
    """

    stream: Callable[[str], StreamSpec]

    def write(self, spec: StreamSpec) -> dict[str, Any]:
        """`spec` as JSON-like data, its secrets redacted."""
        shown: dict[str, Any] = redacted(spec_to_dict(spec))
        return shown

    def read(self, document: Mapping[str, Any]) -> StreamSpec:
        """The spec, with the secrets of the stream's file. One that the file no longer has stays redacted: such a fork
        can be healed, and no driver is launched with it. Raises ConfigError for a spec that this version cannot read.
        """
        if not is_redacted(document):
            return spec_from_dict(document)
        try:
            origin = spec_to_dict(self.stream(Path(str(document.get("file"))).stem))
        except ConfigError:  # the file broke in the middle of the drill
            return spec_from_dict(document)
        return spec_from_dict(restored(document, origin))
