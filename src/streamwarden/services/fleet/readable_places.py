"""Finds the folders of a stream that this host cannot read, so that nothing of it could be watched or proven."""

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.config.places import GLOB, locations
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.problems import KeyPath
from streamwarden.stream.spec import HDFS, OBJECT_STORE, StreamSpec


def unreadable_place(spec: StreamSpec) -> ConfigError | None:
    """The error of the first folder in a storage that this host cannot read; None if there is no such folder.

    HDFS is asked. An object store is not: its key may be where the stream runs only.
    """
    found = (_problem(spec, key, place) for key, place in locations(spec).items() if not OBJECT_STORE.match(place))
    return next((error for error in found if error is not None), None)


def _problem(spec: StreamSpec, key: KeyPath, place: str) -> ConfigError | None:
    try:
        location = open_path(GLOB.split(place, maxsplit=1)[0], spec.storage.connection)
        if HDFS.match(place):
            _ask(location)
    except CheckpointError as error:
        return _refusal(spec, key, f"{place}: {error.observed}", error.expected, error.next_step)
    except OSError as error:
        return _refusal(
            spec,
            key,
            f"{place} cannot be read from this host: {error.strerror or error}",
            "an HDFS whose NameNode and DataNodes answer this host over HTTP (WebHDFS), and a user who may read there",
            "check `dfs.namenode.http-address` in HADOOP_CONF_DIR, `dfs.webhdfs.enabled` and firewalls, and the rights "
            "of the user (HADOOP_USER_NAME)",
        )
    return None


def _ask(location: Location) -> None:
    """Raises OSError unless the folder can be listed or is not there yet."""
    try:
        location.names()
    except (FileNotFoundError, NotADirectoryError):
        return


def _refusal(spec: StreamSpec, key: KeyPath, observed: str, expected: str, next_step: str) -> ConfigError:
    where = f"{spec.file or spec.name}: {'.'.join(map(str, key))}"
    return ConfigError(observed, expected=expected, where=where, next_step=next_step)
