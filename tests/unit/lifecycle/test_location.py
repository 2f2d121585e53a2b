"""One place in storage has one canonical spelling."""

import os
from pathlib import Path

import pytest

from streamwarden.lifecycle.location import canonical


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a//b/./c/../d/", "/a/b/d"),
        ("file:/a/b", "/a/b"),
        ("FILE:///a/b/", "/a/b"),
        ("s3://Bucket//a/./b/", "s3a://bucket/a/b"),
        ("S3N://bucket/a/x/../b", "s3a://bucket/a/b"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket/../../a", "s3a://bucket/a"),
        ("hdfs:/a", "hdfs:///a"),
        ("hdfs:///a/", "hdfs:///a"),
        ("HDFS://NameNode:8020/A", "hdfs://namenode:8020/A"),
        ("abfs://box@account/a", "abfss://box@account/a"),
        ("gs://bucket/a b", "gs://bucket/a b"),
    ],
)
def test_each_spelling_becomes_the_canonical_one(location: str, expected: str) -> None:
    assert canonical(location) == expected
    assert canonical(expected) == expected


def test_links_are_followed_also_above_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert canonical(f"{tmp_path}/link/new/checkpoint") == f"{tmp_path}/real/new/checkpoint"


def test_a_relative_path_counts_from_the_current_folder() -> None:
    assert canonical("a") == os.path.realpath("a")
