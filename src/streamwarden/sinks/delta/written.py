"""The data files that a range of batches wrote into a Delta table, from its log: for an audit of a stream that runs on.

A compaction rewrites rows into other files; the files of the batches stay on the storage until VACUUM removes them.
"""

from streamwarden.adapters.delta.log import own_batches
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_file
from streamwarden.checkpoint.formats.uris import file_name, to_uri
from streamwarden.sinks.output import WrittenFiles
from streamwarden.verification.comparing.balance import Range


def written_files(root: Location, query_id: str, audited: Range) -> WrittenFiles:
    """The files of the audited batches. Raises CheckpointError, OSError."""
    own = own_batches(root, query_id)
    wanted = range(audited.after + 1, audited.upto + 1)
    named = [file for batch in wanted if batch in own for file in own[batch].added]
    lost = [file for file in named if not is_file(Location(root.fs, file))]
    return WrittenFiles(
        uris=tuple(to_uri(file) for file in named if file not in lost),
        format="parquet",
        problems=(
            *(f"the table's log has no commit of the committed batch {batch}" for batch in wanted if batch not in own),
            *(f"the table's log names {file_name(file)}, which is not there (VACUUM?)" for file in lost),
        ),
    )
