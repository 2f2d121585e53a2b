"""The folder that a job names to Spark is the one of the stream's file, however the two are written."""

import pytest

from streamwarden.sources.files.audited import files_in

FILES = [("file:///data/in/1.json", 0)]


@pytest.mark.parametrize(
    ("declared", "named", "same"),
    [
        ("/data/in", "/data/in/", True),
        ("/data/in", "file:/data/in", True),
        ("/data/in", "file:///data/in", True),
        ("/data/a b%20", "file:/data/a b%20", True),
        ("hdfs://lake/in", "hdfs://lake/in/", True),
        ("hdfs://lake/in", "hdfs:///in", True),
        ("/data/in", "/data/in2", False),
        ("/data/in", "hdfs://lake/data/in", False),
        ("hdfs://lake/in", "hdfs://other/in", False),
    ],
)
def test_each_spelling_is_the_one_folder(declared: str, named: str, same: bool) -> None:
    assert files_in({declared: FILES}, named) == (FILES if same else None)
