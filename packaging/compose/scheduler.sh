#!/bin/sh
# Runs Airflow's scheduler. When it ends, this stops the drivers of the container at a batch boundary.
#
# Compose and Kubernetes stop the container for each update. The scheduler goes first, so that it starts no further driver.
# It waits for its running tasks: the run of a drill takes longer than they are patient, and the task of a driver in cluster
# mode lasts as long as its driver, which outlives this container. So the drivers are not left to that, and after them the
# tasks get another minute.
# The desired state of the streams stays `running`: the scheduler of the next container starts them again.
set -u
stopping=no
status=0
airflow scheduler &
scheduler=$!
trap 'stopping=yes; kill -TERM "$scheduler" 2>/dev/null' TERM INT

wait_for_scheduler() { # seconds
    left=$1
    while [ "$left" -gt 0 ] && kill -0 "$scheduler" 2>/dev/null; do
        sleep 1
        left=$((left - 1))
    done
}

while [ "$stopping" = no ] && kill -0 "$scheduler" 2>/dev/null; do
    wait "$scheduler"
    status=$?
done
wait_for_scheduler 20
streamwarden drain --reason "the scheduler's container stops" || true
if [ "$stopping" = yes ]; then
    wait_for_scheduler 60
    kill -KILL "$scheduler" 2>/dev/null
    wait "$scheduler"
    status=$?
fi
exit "$status"
