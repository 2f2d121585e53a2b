#!/bin/sh
# Runs Airflow's scheduler. When it ends, this stops the drivers of the container at a batch boundary.
#
# Compose stops the container for each update. The scheduler goes first, so that it starts no further driver. The desired
# state of the streams stays `running`: the scheduler of the next container starts them again.
set -u
airflow scheduler &
scheduler=$!
trap 'kill -TERM "$scheduler" 2>/dev/null' TERM INT
status=0
while kill -0 "$scheduler" 2>/dev/null; do
    wait "$scheduler"
    status=$?
done
streamwarden drain --reason "the scheduler's container stops" || true
exit "$status"
