"""Origins and damages whose outcome the inspector predicts and Spark judges (spark/proofs/test_checkpoint_damage).

Some origins are checkpoints of older Sparks, from tests/data/checkpoints: Spark 4.3 continues them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streamwarden.checkpoint.diagnosis.damage import Consequence
from support.checkpoints.damages import (
    Breakage,
    age,
    both,
    compact,
    copy,
    edit,
    empty,
    flip,
    halve,
    lose,
    lose_data_of,
    write,
)
from support.spark.worker import HDFS, ROCKSDB

BEFORE, AFTER = 7, 1
# The newest batch is 7: after the 7 with data an append query runs one without. Its state version is 8. The run after
# the damage has batch 8 with the new file, and batch 9, which has none and compacts the sink's manifest.
STATE = "spark.sql.streaming.stateStore"
CHANGELOG = {f"{STATE}.providerClass": ROCKSDB, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
FULL = {f"{STATE}.providerClass": ROCKSDB, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "false"}
DELTAS = {f"{STATE}.providerClass": HDFS, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "false"}
MINIMUM, FORMAT = f"{STATE}.minDeltasForSnapshot", f"{STATE}.checkpointFormatVersion"
LIMIT = f"{STATE}.autoSnapshotRepair.maxChangeFileReplay"


@dataclass(frozen=True)
class Kind:
    """An origin: its settings, and the one snapshot that each partition has once `newest` is there.

    Args:
        shape: of the query, see SparkWorker.
        archive: the origin was written by an older Spark; files: how many it had read.
    """

    conf: Mapping[str, str]
    newest: str
    format: str = "1"
    shape: str = "counts"
    archive: str | None = None
    files: int = BEFORE


# So many deltas to a snapshot that there is exactly one: of the newest version (covered), of version 5, or none.
KINDS = {
    "covered": Kind({**CHANGELOG, MINIMUM: "8"}, "8.zip"),
    "changelog": Kind({**CHANGELOG, MINIMUM: "5"}, "5.zip"),
    "zip": Kind({**FULL, MINIMUM: "5"}, "8.zip"),
    "hdfs covered": Kind({**DELTAS, MINIMUM: "7"}, "8.snapshot"),
    "hdfs": Kind({**DELTAS, MINIMUM: "100"}, "8.delta"),
    "format 2": Kind({**CHANGELOG, MINIMUM: "5"}, "5_*.zip", format="2"),
    "stateless": Kind({**CHANGELOG, MINIMUM: "5"}, "", shape="rows"),
    "limited": Kind({**CHANGELOG, MINIMUM: "5"}, "5.zip", shape="limited"),
    "pairs": Kind({**CHANGELOG, MINIMUM: "5"}, "", shape="pairs"),
    "spark 3.5 hdfs": Kind(DELTAS, "", archive="spark-3.5.6-hdfs", files=5),
    "spark 3.5 zip": Kind(FULL, "", archive="spark-3.5.6-rocksdb", files=3),
    "spark 4.0": Kind(CHANGELOG, "", archive="spark-4.0.1-changelog", files=5),
}

COMMIT, OFFSETS, ENTRY = "checkpoint/commits/7", "checkpoint/offsets/7", "output/_spark_metadata/7"
STORES = "checkpoint/state/0/*"
STATELESS_COMMIT, STATELESS_ENTRY = "checkpoint/commits/6", "output/_spark_metadata/6"
PROVIDER, PARTITIONS = "state.RocksDBStateStoreProvider", 'shuffle.partitions":"2"'
HARMLESS, RECOVERS, REFUSES, DOUBLES, LOSES = Consequence

# Case -> (origin, damage, what the inspector must foretell). Spark is the judge of what was foretold.
CASES: dict[str, tuple[str, Breakage, Consequence | None]] = {
    "nothing damaged": ("changelog", lambda fork: None, None),
    # The logs.
    "last commit lost": ("changelog", lose(COMMIT), None),
    "last commit and its manifest entry lost": ("changelog", lose(COMMIT, ENTRY), None),
    "last batch undone": ("changelog", lose(COMMIT, ENTRY, OFFSETS), None),
    "last two commits lost": ("changelog", lose("checkpoint/commits/[67]"), RECOVERS),
    "all commits lost": ("changelog", lose("checkpoint/commits"), RECOVERS),
    "last commit cut off": ("changelog", halve(COMMIT), REFUSES),
    "older commit cut off": ("changelog", halve("checkpoint/commits/6"), HARMLESS),
    "last offsets lost": ("changelog", lose(OFFSETS), REFUSES),
    "last offsets empty": ("changelog", empty(OFFSETS), REFUSES),
    "offsets before the last lost": ("changelog", lose("checkpoint/offsets/6"), REFUSES),
    "older offsets lost": ("changelog", lose("checkpoint/offsets/4"), HARMLESS),
    "source log cut off": ("changelog", halve("checkpoint/sources/0/3"), REFUSES),
    "source log entry lost": ("changelog", lose("checkpoint/sources/0/3"), REFUSES),
    "metadata lost": ("changelog", lose("checkpoint/metadata"), REFUSES),
    "metadata empty": ("changelog", empty("checkpoint/metadata"), REFUSES),
    "metadata without a UUID": ("changelog", write("checkpoint/metadata", '{"id":"flights"}'), REFUSES),
    "metadata with a shortened UUID": ("changelog", write("checkpoint/metadata", '{"id":"1-2-3-4-5"}'), None),
    "metadata with six numbers": ("changelog", write("checkpoint/metadata", '{"id":"1-2-3-4-5-6"}'), REFUSES),
    "metadata with a line after it": (
        "changelog",
        write("checkpoint/metadata", '{"id":"7c1b6bd0-0000-4000-8000-000000000001"}\nmore'),
        None,
    ),
    "offsets of a later format": ("changelog", edit(OFFSETS, "v1", "v3"), REFUSES),
    "offsets of no format": ("changelog", edit(OFFSETS, "v1", "v0"), REFUSES),
    "offsets before the last of a later format": ("changelog", edit("checkpoint/offsets/6", "v1", "v3"), REFUSES),
    "older offsets of a later format": ("changelog", edit("checkpoint/offsets/4", "v1", "v3"), HARMLESS),
    "offsets that go back": ("changelog", edit(OFFSETS, '"logOffset":6', '"logOffset":3'), REFUSES),
    "offsets of another source": ("changelog", edit(OFFSETS, '{"logOffset":6}', '{"topic":{"0":6}}'), REFUSES),
    "offsets as a number": ("changelog", edit(OFFSETS, '{"logOffset":6}', "6"), None),
    "offsets with more after the JSON": ("changelog", edit(OFFSETS, '}\n{"log', '}more\n{"log'), None),
    "commit of a later format": ("changelog", edit(COMMIT, "v1", "v4"), REFUSES),
    "commit with its version line alone": ("changelog", write(COMMIT, "v1"), None),
    "commits never planned": (
        "changelog",
        both(copy(COMMIT, "checkpoint/commits/9"), copy(COMMIT, "checkpoint/commits/12")),
        REFUSES,
    ),
    "checksum left of an older commit": (
        "changelog",
        both(lose("checkpoint/commits/4"), write("checkpoint/commits/.4.crc", "crc")),
        HARMLESS,
    ),
    "source log of a later format": ("changelog", edit("checkpoint/sources/0/3", "v1", "v2"), REFUSES),
    "newest file of the source's log lost": ("stateless", lose("checkpoint/sources/0/6"), REFUSES),
    "newest file of the source's log lost, its batch not committed": (
        "stateless",
        lose("checkpoint/sources/0/6", STATELESS_COMMIT, STATELESS_ENTRY),
        REFUSES,
    ),
    "a file of the source's log without a file": ("stateless", write("checkpoint/sources/0/3", "v1"), DOUBLES),
    # The state as a whole.
    "state lost": ("changelog", lose("checkpoint/state"), REFUSES),
    "a partition lost": ("changelog", lose("checkpoint/state/0/1"), REFUSES),
    "the first partition lost": ("hdfs", lose("checkpoint/state/0/0"), REFUSES),
    "a partition and the operator metadata lost": (
        "changelog",
        lose("checkpoint/state/0/1", "checkpoint/state/0/_metadata"),
        REFUSES,
    ),
    "the operator's folder lost, another one there": (
        "changelog",
        lambda fork: (fork / "checkpoint/state/0").rename(fork / "checkpoint/state/1"),
        REFUSES,
    ),
    "all partitions lost, their operator's folder left": ("changelog", lose(f"{STORES}"), REFUSES),
    "more partitions in the operator metadata": (
        "changelog",
        edit("checkpoint/state/0/_metadata/metadata", '"numPartitions":2', '"numPartitions":3'),
        None,
    ),
    "more partitions in the offsets": ("changelog", edit(OFFSETS, PARTITIONS, 'shuffle.partitions":"3"'), REFUSES),
    "fewer partitions in the offsets": ("changelog", edit(OFFSETS, PARTITIONS, 'shuffle.partitions":"1"'), LOSES),
    "another state store in the offsets": (
        "changelog",
        edit(OFFSETS, PROVIDER, "state.HDFSBackedStateStoreProvider"),
        REFUSES,
    ),
    "no state and none needed": ("stateless", lambda fork: None, HARMLESS),
    "one partition, as a limit has": ("limited", lambda fork: None, None),
    "the one partition of a limit lost": ("limited", lose("checkpoint/state/0/0"), REFUSES),
    "a join as it is": ("pairs", lambda fork: None, None),
    "a store of a join lost": ("pairs", lose("checkpoint/state/0/1/right-keyToNumValues"), REFUSES),
    "the same store of a join lost in all partitions": (
        "pairs",
        lose("checkpoint/state/0/*/right-keyToNumValues"),
        REFUSES,
    ),
    # Checkpoints of older Sparks.
    "3.5: HDFS-backed": ("spark 3.5 hdfs", lambda fork: None, None),
    "3.5: last partition lost": ("spark 3.5 hdfs", lose("checkpoint/state/0/1"), REFUSES),
    "3.5: first partition lost": ("spark 3.5 hdfs", lose("checkpoint/state/0/0"), REFUSES),
    "3.5: more partitions in the offsets": (
        "spark 3.5 hdfs",
        edit("checkpoint/offsets/5", PARTITIONS, 'shuffle.partitions":"3"'),
        REFUSES,
    ),
    "3.5: last partition of RocksDB lost": ("spark 3.5 zip", lose("checkpoint/state/0/1"), REFUSES),
    "4.0: with changelogs": ("spark 4.0", lambda fork: None, None),
    "4.0: last partition lost": ("spark 4.0", lose("checkpoint/state/0/1"), REFUSES),
    "operator metadata lost": ("changelog", lose("checkpoint/state/0/_metadata"), RECOVERS),
    "state schema cut off": ("changelog", halve("checkpoint/state/0/0/_metadata/schema"), REFUSES),
    # RocksDB with changelogs, the newest version without its own snapshot.
    "last changelog lost": ("changelog", lose(f"{STORES}/8.changelog"), REFUSES),
    "last changelog of one partition lost": ("changelog", lose("checkpoint/state/0/1/8.changelog"), REFUSES),
    "last changelog cut off": ("changelog", halve(f"{STORES}/8.changelog"), REFUSES),
    "last changelog empty": ("changelog", empty(f"{STORES}/8.changelog"), REFUSES),
    "last changelog flipped": ("changelog", flip(f"{STORES}/8.changelog"), REFUSES),
    "changelog after the snapshot lost": ("changelog", lose(f"{STORES}/6.changelog"), REFUSES),
    "changelog before the snapshot lost": ("changelog", lose(f"{STORES}/2.changelog"), None),
    "snapshots cut off": ("changelog", halve(f"{STORES}/*.zip"), RECOVERS),
    "snapshots flipped": ("changelog", flip(f"{STORES}/*.zip"), RECOVERS),
    "files of the snapshots lost": ("changelog", lose(f"{STORES}/SSTs"), RECOVERS),
    "snapshots and an early changelog lost": (
        "changelog",
        lose(f"{STORES}/*.zip", f"{STORES}/2.changelog"),
        REFUSES,
    ),
    "snapshots cut off and an early changelog lost": (
        "changelog",
        both(halve(f"{STORES}/*.zip"), lose(f"{STORES}/2.changelog")),
        REFUSES,
    ),
    "snapshots and an early changelog cut off": (
        "changelog",
        halve(f"{STORES}/*.zip", f"{STORES}/2.changelog"),
        REFUSES,
    ),
    "last commit and changelog lost": ("changelog", lose(COMMIT, f"{STORES}/8.changelog"), REFUSES),
    "last commit, its manifest entry and changelog lost": (
        "changelog",
        lose(COMMIT, ENTRY, f"{STORES}/8.changelog"),
        None,
    ),
    # ... with a snapshot of the newest version.
    "covered changelog lost": ("covered", lose(f"{STORES}/8.changelog"), None),
    "covered changelog cut off": ("covered", halve(f"{STORES}/8.changelog"), None),
    "covered changelog empty": ("covered", empty(f"{STORES}/8.changelog"), None),
    "covering snapshot cut off and an early changelog lost": (
        "covered",
        both(halve(f"{STORES}/*.zip"), lose(f"{STORES}/2.changelog")),
        REFUSES,
    ),
    "snapshot newer than the last commit": ("covered", lose(COMMIT, ENTRY), None),
    "snapshot newer than the last commit, an early changelog lost": (
        "covered",
        lose(COMMIT, ENTRY, f"{STORES}/2.changelog"),
        REFUSES,
    ),
    "last commit and an early changelog lost": ("covered", lose(COMMIT, f"{STORES}/2.changelog"), None),
    # RocksDB without changelogs.
    "last full snapshot lost": ("zip", lose(f"{STORES}/8.zip"), REFUSES),
    "last full snapshot cut off": ("zip", halve(f"{STORES}/8.zip"), REFUSES),
    "files of the full snapshots lost": ("zip", lose(f"{STORES}/SSTs"), REFUSES),
    # HDFS-backed.
    "last delta lost": ("hdfs", lose(f"{STORES}/8.delta"), REFUSES),
    "last delta cut off": ("hdfs", halve(f"{STORES}/8.delta"), REFUSES),
    "last delta flipped": ("hdfs", flip(f"{STORES}/8.delta"), REFUSES),
    "early delta lost": ("hdfs", lose(f"{STORES}/4.delta"), REFUSES),
    "covered delta lost": ("hdfs covered", lose(f"{STORES}/8.delta"), None),
    "last HDFS snapshot cut off": ("hdfs covered", halve(f"{STORES}/8.snapshot"), RECOVERS),
    "last HDFS snapshot flipped": ("hdfs covered", flip(f"{STORES}/8.snapshot"), RECOVERS),
    "last HDFS snapshot cut off and an early delta lost": (
        "hdfs covered",
        both(halve(f"{STORES}/8.snapshot"), lose(f"{STORES}/4.delta")),
        REFUSES,
    ),
    # Checkpoint format 2.
    "format 2: last changelog lost": ("format 2", lose(f"{STORES}/8_*.changelog"), REFUSES),
    "format 2: last changelog cut off": ("format 2", halve(f"{STORES}/8_*.changelog"), REFUSES),
    "format 2: snapshots cut off": ("format 2", halve(f"{STORES}/*.zip"), RECOVERS),
    "format 2: snapshots lost": ("format 2", lose(f"{STORES}/*.zip"), REFUSES),
    "format 2: last commit lost": ("format 2", lose(COMMIT), REFUSES),
    "format 2: last commit and its manifest entry lost": ("format 2", lose(COMMIT, ENTRY), None),
    # The sink's manifest.
    "manifest entry lost": ("changelog", lose("output/_spark_metadata/5"), LOSES),
    "manifest entry empty": ("changelog", empty("output/_spark_metadata/5"), LOSES),
    "manifest entry cut off": ("changelog", halve("output/_spark_metadata/5"), LOSES),
    "last manifest entry lost": ("changelog", lose(ENTRY), LOSES),
    "manifest lost": ("changelog", lose("output/_spark_metadata"), LOSES),
    "manifest entry of a later format": ("changelog", edit("output/_spark_metadata/5", "v1", "v2"), LOSES),
    "open entry empty": ("changelog", both(lose(COMMIT), empty(ENTRY)), LOSES),
    "open entry cut off": ("changelog", both(lose(COMMIT), halve(ENTRY)), LOSES),
    "open entry cut off, then moved out as advised": ("changelog", both(lose(COMMIT), halve(ENTRY), lose(ENTRY)), None),
    "open entry without its files": ("changelog", both(lose(COMMIT), lose_data_of(ENTRY)), LOSES),
    "open entry without its files, then moved out as advised": (
        "changelog",
        both(lose(COMMIT), lose_data_of(ENTRY), lose(ENTRY)),
        None,
    ),
    "stateless: open entry empty": ("stateless", both(lose(STATELESS_COMMIT), empty(STATELESS_ENTRY)), LOSES),
    "stateless: open entry without its files": (
        "stateless",
        both(lose(STATELESS_COMMIT), lose_data_of(STATELESS_ENTRY)),
        LOSES,
    ),
    "open compact entry, a file of an earlier batch lost": (
        "stateless",
        both(
            lose(STATELESS_COMMIT), lose_data_of("output/_spark_metadata/1"), compact("output/_spark_metadata", upto=6)
        ),
        LOSES,
    ),
    "format 2: a commit never planned": ("format 2", copy(COMMIT, "checkpoint/commits/8"), REFUSES),
    "format 2: open entry cut off": ("format 2", both(lose(COMMIT), halve(ENTRY)), REFUSES),
    "checksum left in the manifest": ("changelog", write("output/_spark_metadata/.8.crc", "crc"), REFUSES),
    "manifest ahead of the checkpoint": ("stateless", copy(STATELESS_ENTRY, "output/_spark_metadata/7"), LOSES),
    "manifest of an older run, new checkpoint": (
        "stateless",
        both(lose("checkpoint/offsets", "checkpoint/commits", "checkpoint/sources"), write(STATELESS_ENTRY, "v1")),
        LOSES,  # that run wrote nothing in its batch 6; the new one has rows there
    ),
    "open entry of an older run": (
        "stateless",
        both(lose(STATELESS_COMMIT), age(STATELESS_ENTRY), lose_data_of(STATELESS_ENTRY)),
        LOSES,
    ),
    "a data file lost": ("changelog", lambda fork: data_file(fork).unlink(), LOSES),
    "a data file cut off": ("changelog", lambda fork: cut(fork, data_file(fork)), LOSES),
    "open entry with a file cut off": (
        "stateless",
        both(lose(STATELESS_COMMIT), lambda fork: cut(fork, data_file(fork, STATELESS_ENTRY))),
        LOSES,
    ),
    "input of the planned batch lost": (
        "stateless",
        both(lose(STATELESS_COMMIT, STATELESS_ENTRY), lose("input/in 006.json")),
        LOSES,
    ),
    "input of a committed batch lost": ("stateless", lose("input/in 006.json"), HARMLESS),
    "logs behind the manifest": ("stateless", lose("checkpoint/offsets/6", "checkpoint/commits/6"), LOSES),
}


def data_file(fork: Path, entry: str | None = None) -> Path:
    """The largest file of the output, or the first that an entry names."""
    if entry is not None:
        line = (fork / entry).read_text().splitlines()[1]
        return fork / "output" / str(json.loads(line)["path"]).rpartition("/")[2]
    return max(fork.glob("output/*.parquet"), key=lambda path: (path.stat().st_size, path.name))


def cut(fork: Path, file: Path) -> None:
    halve(str(file.relative_to(fork)))(fork)
