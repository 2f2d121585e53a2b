#!/bin/sh
# Runs Airflow's scheduler. When it ends, this stops the drivers of the container at a batch boundary.
#
# Compose stops the container for each update. The scheduler goes first, so that it starts no further driver. It waits for
# its running tasks, and the run of a drill takes longer than Compose is patient: the drivers are not left to that.
# The desired state of the streams stays `running`: the scheduler of the next container starts them again.
set -u
patience=20
stopping=no
status=0
airflow scheduler &
scheduler=$!
trap 'stopping=yes; kill -TERM "$scheduler" 2>/dev/null' TERM INT
while [ "$stopping" = no ] && kill -0 "$scheduler" 2>/dev/null; do
    wait "$scheduler"
    status=$?
done
while [ "$patience" -gt 0 ] && kill -0 "$scheduler" 2>/dev/null; do
    sleep 1
    patience=$((patience - 1))
done
streamwarden drain --reason "the scheduler's container stops" || true
if [ "$stopping" = yes ]; then
    wait "$scheduler"
    status=$?
fi
exit "$status"
