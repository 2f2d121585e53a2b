#!/bin/bash
# The entry point of the image. On Kubernetes Spark starts its pods with `driver ARGUMENT…` or `executor`; everything else is
# a command of its own, as docker-compose.yaml has them.
set -euo pipefail

# Hadoop's login wants a name for the user, and finds none for a number that /etc/passwd lacks.
require_user() {
    if ! id -un >/dev/null 2>&1; then
        printf '%s\n' "user $(id -u) has no name in this image" \
            "expected: user 1000 (streamwarden), or another one of /etc/passwd" "where: the securityContext of this pod" \
            "next: set runAsUser: 1000, or add the user to the image" >&2
        exit 78
    fi
}

# The parts of an executor's command that are given one by one, as variables.
require() {
    local name
    for name; do
        if [ -z "${!name:-}" ]; then
            printf '%s\n' "the variable $name is missing" "expected: an executor that a driver of Spark asked for" \
                "where: the environment of this container" \
                "next: let Spark start executors: \`executor\` is no command for people" >&2
            exit 78
        fi
    done
}

# SIGTERM reaches this shell alone: a pod that is deleted. It asks the driver, whose folder is the last argument, to end at
# a batch boundary, and waits. Any other program of Spark gets the signal.
run_driver() {
    local address=$SPARK_DRIVER_BIND_ADDRESS folder=${!#} child code
    "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=$address" --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$address" "$@" &
    child=$!
    trap 'stop_driver "$folder" "$child"' TERM
    while true; do
        code=0
        wait "$child" || code=$?
        kill -0 "$child" 2>/dev/null || exit "$code"
    done
}

stop_driver() {
    if ! { [ -f "$1/spec.json" ] && python -m streamwarden.spark.programs.pod_stop "$1"; }; then
        kill -TERM "$2"
    fi
}

run_executor() {
    local options=() number=0 option
    while option=SPARK_JAVA_OPT_$number && [ -n "${!option+set}" ]; do
        options+=("${!option}")
        number=$((number + 1))
    done
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}$SPARK_HOME/jars/*:$PWD" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
}

# Spark of the environment in which the image has Streamwarden.
spark_home() {
    python -c 'import importlib.util; print(importlib.util.find_spec("pyspark").submodule_search_locations[0])'
}

case ${1:-} in
driver)
    shift
    require_user
    require SPARK_DRIVER_BIND_ADDRESS
    export SPARK_HOME=${SPARK_HOME:-$(spark_home)}
    run_driver "$@"
    ;;
executor)
    require_user
    require SPARK_DRIVER_URL SPARK_EXECUTOR_ID SPARK_EXECUTOR_CORES SPARK_EXECUTOR_MEMORY SPARK_APPLICATION_ID \
        SPARK_EXECUTOR_POD_IP SPARK_RESOURCE_PROFILE_ID SPARK_EXECUTOR_POD_NAME
    export SPARK_HOME=${SPARK_HOME:-$(spark_home)}
    run_executor
    ;;
*)
    exec "$@"
    ;;
esac
