"""How pyiceberg reaches the files of a table."""

from streamwarden.adapters.storage.object_stores import access
from streamwarden.stream.spec import OBJECT_STORE


def properties_of(path: str, connection: str | None) -> dict[str, str]:
    """What pyiceberg needs for a table in an object store; nothing for one on this host. Raises ConfigError."""
    if not OBJECT_STORE.match(path):
        return {}
    found = access(connection)
    named = {
        "s3.endpoint": found.endpoint,
        "s3.access-key-id": found.key,
        "s3.secret-access-key": found.secret,
        "s3.session-token": found.token,
        "s3.region": found.region,
        "s3.force-virtual-addressing": None if found.path_style else "true",
    }
    return {name: value for name, value in named.items() if value is not None}
