"""Names of files that Spark takes for patterns. Pure.

Spark 4.3 reads the other files of a batch once more for each such name: their rows are then in the query twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from streamwarden.checkpoint.formats.uris import file_name, is_pattern, to_path


def read_twice(files: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """The batches that read files more than once, in words.

    Args:
        files: batch -> the URIs of the files that it read.
    """
    for batch, uris in sorted(files.items()):
        patterns = [uri for uri in uris if is_pattern(to_path(uri))]
        if patterns and len(uris) > 1:
            yield (
                f"batch {batch} read {len(uris) - 1} of its {len(uris)} files more than once: Spark takes the name "
                f"{file_name(patterns[0])!r} for a pattern, and reads the other files of the batch once more for it"
            )


def by_batch(read: Iterable[tuple[str, int]]) -> dict[int, list[str]]:
    """(URI, batch) as batch -> URIs."""
    files: dict[int, list[str]] = {}
    for uri, batch in read:
        files.setdefault(batch, []).append(uri)
    return files
