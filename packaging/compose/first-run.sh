#!/bin/sh
# Unpauses DAGs, each as soon as Airflow has it: once for each file MARK, so a DAG that a user pauses later stays paused.
#
#     first-run.sh MARK DAG...
set -eu
mark=$1
shift
[ ! -e "$mark" ] || exit 0
for dag in "$@"; do
    until airflow dags list --output plain --columns dag_id | grep -qx "$dag"; do sleep 2; done
    airflow dags unpause "$dag"
done
: >"$mark"
