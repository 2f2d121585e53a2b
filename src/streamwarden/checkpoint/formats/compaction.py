"""The names that a compactible log writes next: the log of a file source, or the manifest of the file sink.

On a local disk Hadoop keeps a checksum file `.N.crc` for each file `N`. If a person removes `N` and leaves
`.N.crc`, the query stops: Spark cannot rename its new `N` into place and fails with "Multiple streaming queries are
concurrently using ...". Object stores have no such files.
"""

import re
from collections.abc import Iterable, Sequence
from math import isqrt
from typing import Final

from streamwarden.checkpoint.formats.layout import compactible_ids, compactible_name

DEFAULT_INTERVAL: Final = 10
"""`spark.sql.streaming.fileSink.log.compactInterval`: after so many batches one compacts the manifest."""
_MOST_BATCHES: Final = 10**9
_CHECKSUM: Final = re.compile(r"\.(([0-9]+)(?:\.compact)?)\.crc")


def next_compaction(compact: Sequence[int], batch: int) -> int:
    """The first batch after `batch` that compacts.

    The interval is derived as in Spark's CompactibleFileStreamLog: from the last two compact files, or from the only
    one. Without any, the setting counts; a checkpoint does not contain it, so the default is assumed.
    """
    if len(compact) > 1:
        interval = compact[-1] - compact[-2]
    elif compact:
        interval = _divisor(compact[0] + 1)
    else:
        interval = DEFAULT_INTERVAL
    return batch + interval - (batch + 1) % interval


def orphan_checksums(names: Iterable[str], after: int, *, compacts: bool = False) -> list[str]:
    """Names of checksum files without their file that will make a batch after `after` fail, ascending.

    Args:
        names: of everything in the folder of a log.
        compacts: whether the log is compacted; the next batch that compacts writes `N.compact` and not `N`.
    """
    present = set(names)
    compact = next_compaction([batch for batch, whole in compactible_ids(present) if whole], after)
    orphans = []
    for name in present:
        match = _CHECKSUM.fullmatch(name)
        if match is None or match.group(1) in present or int(match.group(2)) <= after:
            continue
        batch = int(match.group(2))
        if match.group(1) == compactible_name(batch, compacts and batch == compact):
            orphans.append((batch, name))
    return [name for _, name in sorted(orphans)]


def _divisor(batches: int) -> int:
    """The smallest proper divisor at or above the default; `batches` itself if there is none.

    Divisors come in pairs, one of them up to the square root. For a number that no query reaches this gives up.
    """
    if batches // 2 <= DEFAULT_INTERVAL or batches > _MOST_BATCHES:
        return batches
    small = [number for number in range(1, isqrt(batches) + 1) if batches % number == 0]
    divisors = {*small, *(batches // number for number in small)} - {batches}
    return min((divisor for divisor in divisors if divisor >= DEFAULT_INTERVAL), default=batches)
