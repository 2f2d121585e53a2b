"""Which files a load reads, and what a restart would replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import Damaged
from streamwarden.checkpoint.formats.operators import operator_metadata_path, read_operator_metadata
from streamwarden.checkpoint.formats.state import kept_versions, state_stores
from support.checkpoints.recorded import Unpack


def make(root: Path, *names: str, partition: int = 0, store: str = "", size: int = 10) -> None:
    folder = root / "state/0" / str(partition) / store
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x" * size)


def test_a_load_starts_from_the_newest_snapshot_at_or_below_its_version(tmp_path: Path) -> None:
    make(tmp_path, "3.zip", "6.zip", *(f"{version}.changelog" for version in range(1, 9)))
    (store,) = state_stores(open_path(tmp_path))
    load = store.load(5)
    assert load.snapshot is not None
    assert load.snapshot.name == "3.zip"
    assert [file.name for file in load.changes] == ["4.changelog", "5.changelog"]
    assert load.complete
    assert [each.snapshot and each.snapshot.name for each in store.loads(8)] == ["6.zip", "3.zip", None]


def test_a_load_without_its_changes_is_not_complete(tmp_path: Path) -> None:
    make(tmp_path, "3.zip", "4.changelog", "6.changelog")
    (store,) = state_stores(open_path(tmp_path))
    assert store.load(6).missing == (5,)
    assert store.load(2).missing == (1, 2), "a version older than every snapshot starts from nothing"


def test_scratch_and_checksums_are_no_state(tmp_path: Path) -> None:
    make(tmp_path, "1.delta", ".1.delta.crc", "1.delta.crc", ".2.delta.tmp", "3.delta.tmp")
    (store,) = state_stores(open_path(tmp_path))
    assert [file.name for file in store.files] == ["1.delta"]
    assert store.bytes == 10


def test_each_store_of_a_join_is_listed_and_ssts_count_as_bytes(tmp_path: Path) -> None:
    make(tmp_path, "1.zip", store="left")
    make(tmp_path, "a.sst", store="left/SSTs", size=500)
    make(tmp_path, "1.zip", store="right")
    make(tmp_path, "1.zip", store="right", partition=1)
    stores = state_stores(open_path(tmp_path))
    assert [(store.partition, store.name, store.bytes) for store in stores] == [
        (0, "left", 510),
        (0, "right", 10),
        (1, "right", 10),
    ]


@pytest.mark.parametrize("stores", [["", ""], ["left", "right"]])
def test_the_names_alone_give_the_same_versions(stores: list[str], tmp_path: Path) -> None:
    """Of snapshots and changes with a hole among them, in a partition's folder, or in one for each store of a join."""
    names = ["3.zip", "3.changelog", "4.changelog", "6.changelog", "7.changelog", "7.zip", ".7.zip.crc"]
    make(tmp_path, *names, store=stores[0])
    make(tmp_path, *names[:3], store=stores[1], partition=1)
    make(tmp_path, "a.sst", store=f"{stores[0]}/SSTs")
    found = [
        (store.partition, max(store.snapshots), store.newest, store.kept_since)
        for store in state_stores(open_path(tmp_path))
    ]
    kept = kept_versions(open_path(tmp_path))
    assert [(each.partition, each.snapshot, each.newest, each.kept_since) for each in kept] == found
    assert found == [(0, 7, 7, 7), (1, 3, 4, 3)]
    assert kept_versions(open_path(tmp_path / "nothing")) == ()


def test_replay_debt_counts_changes_after_the_last_uploaded_snapshot(tmp_path: Path) -> None:
    make(tmp_path, "3.zip", *(f"{version}.changelog" for version in range(1, 9)))
    make(tmp_path, *(f"{version}.changelog" for version in range(1, 9)), partition=1)
    make(tmp_path, *(f"{version}.zip" for version in range(1, 9)), partition=2)
    some, everything, nothing = (store.replay for store in state_stores(open_path(tmp_path)))
    assert (some.snapshot, some.newest, some.versions, some.changelog_bytes) == (3, 8, 5, 50)
    assert (everything.snapshot, everything.versions, everything.changelog_bytes) == (None, 8, 80)
    assert (nothing.snapshot, nothing.versions, nothing.changelog_bytes) == (8, 0, 0)


def test_a_query_without_state_has_no_stores(tmp_path: Path) -> None:
    assert state_stores(open_path(tmp_path)) == ()


def test_bytes_are_those_of_the_directory(unpack: Unpack, tmp_path: Path) -> None:
    checkpoint = unpack("spark-4.3.0-rocksdb", tmp_path)
    files = [path for path in (checkpoint / "state").glob("0/[0-9]*/**/*") if path.is_file()]
    content = sum(path.stat().st_size for path in files if not path.name.endswith(".crc"))
    assert sum(store.bytes for store in state_stores(open_path(checkpoint))) == content


INFO = '{"operatorInfo":{"operatorId":0,"operatorName":"transformWithStateExec"},"stateStoreInfo":[%s]}'
STORE = '{"storeName":"default","numColsPrefixKey":0,"numPartitions":4}'


def test_the_newest_metadata_of_a_processor_counts(tmp_path: Path) -> None:
    """transformWithState keeps one file a batch that changed it, in a folder `v2`."""
    folder = tmp_path / "state/0/_metadata/v2"
    folder.mkdir(parents=True)
    (folder / "0").write_text("v2\n" + INFO % "")
    (folder / "7").write_text("v2\n" + INFO % STORE)
    where = operator_metadata_path(open_path(tmp_path), 0)
    assert where == "state/0/_metadata/v2/7"
    metadata = read_operator_metadata(open_path(tmp_path), 0, where)
    assert (metadata.version, metadata.name, metadata.partitions) == (2, "transformWithStateExec", 4)


def test_an_operator_without_metadata_has_no_place_for_it(tmp_path: Path) -> None:
    assert operator_metadata_path(open_path(tmp_path), 0) is None


@pytest.mark.parametrize("content", ["", "v1", "v1\n{}", 'v1\n{"operatorInfo":{}', "v1\n[]"])
def test_metadata_that_names_no_operator_is_damaged(content: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(content)
    with pytest.raises(Damaged):
        read_operator_metadata(open_path(tmp_path), 0, "metadata")
