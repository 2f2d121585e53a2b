"""Streamwarden keeps stateful Spark Structured Streaming jobs alive, healthy and provably correct."""

import sys

from streamwarden.extras import MissingExtras

sys.meta_path.append(MissingExtras())
