"""The contenders: one line each."""

from benchmarks.side_by_side.contender import Contender
from benchmarks.side_by_side.peers.bytewax import Bytewax
from benchmarks.side_by_side.peers.kafka_streams import KafkaStreams
from benchmarks.side_by_side.peers.pyflink import PyFlink
from benchmarks.side_by_side.peers.quix_streams import QuixStreams
from benchmarks.side_by_side.peers.spark import Bare, Streamwarden

CONTENDERS: dict[str, Contender] = {
    "streamwarden": Streamwarden(standby=True),
    "streamwarden_cold": Streamwarden(standby=False),
    "bare_spark": Bare(),
    "pyflink": PyFlink(),
    "kafka_streams": KafkaStreams(),
    "quix_streams": QuixStreams(),
    "bytewax": Bytewax(),
}
