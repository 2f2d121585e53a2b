#!/usr/bin/env bash
# A container engine for the tests, on a Debian 12 that has none and reaches no registry of images. Needs root.
#
#     container_engine.sh start FOLDER JARS    prints the variables under which `docker` finds the engine
#     container_engine.sh stop FOLDER          ends the engine and removes FOLDER
#
# The engine is the one of Debian's package docker.io, Compose and buildx are those of Debian trixie. They are taken out
# of their packages: to install them would also start an engine of this machine. Everything is below FOLDER. JARS is a
# folder with the jars of Kafka's broker.
#
# The images that the Dockerfile and docker-compose.yaml name are made here. They differ from the published ones:
#
#   python:3.11-slim-bookworm   Debian's own Python 3.11, below /usr/bin, without pip outside of environments
#   postgres:17                 Debian's own server; an entry point that knows POSTGRES_USER, _PASSWORD and _DB and the
#                               scripts *.sql of the first start, and no other variable
#   apache/kafka:4.1.1          Kafka's own jars and its own wrapper, on Debian's Java 17 instead of Alpine's 21; there
#                               are no scripts below /opt/kafka/bin
#
# They also trust the certificates that this machine's administrator added to it.
#
# All containers together have two cores and 8 GB, which docs/deploy.md calls enough. The page cache counts, too.
set -euo pipefail
group=streamwarden-tests

say() { printf '[engine] %s\n' "$*" >&2; }
die() {
    printf '[engine] %s\n' "$@" >&2
    exit 1
}

variables() {
    echo "DOCKER_HOST=unix://$folder/docker.sock"
    echo "DOCKER_CONFIG=$folder/config"
    echo "PATH=$folder/programs/usr/bin:$folder/programs/usr/sbin:/usr/sbin:/sbin:$PATH"
}

# --- programs --------------------------------------------------------------------------------------------------------
need() { # program, package
    command -v "$1" >/dev/null && return
    say "installing $2"
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2" >/dev/null 2>&1 ||
        die "$2 cannot be installed"
}

unpacked() { # folder with packages, target
    local package
    for package in "$1"/*.deb; do dpkg-deb -x "$package" "$2"; done
}

root_of() { # a Debian's name; makes the folder of its files
    debootstrap --variant=minbase --include=ca-certificates "$1" "$folder/$1" >"$folder/$1.log" 2>&1 ||
        die "debootstrap of $1 failed:" "$(tail -n 5 "$folder/$1.log")"
    cp /etc/resolv.conf "$folder/$1/etc/resolv.conf"
    cp /usr/local/share/ca-certificates/*.crt "$folder/$1/usr/local/share/ca-certificates/" 2>/dev/null || true
    chroot "$folder/$1" update-ca-certificates >/dev/null 2>&1
    # As in the published images: no documentation, and no packages that stay after they were installed.
    printf 'path-exclude /usr/share/%s/*\n' doc man locale info >"$folder/$1/etc/dpkg/dpkg.cfg.d/slim"
    echo 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };' \
        >"$folder/$1/etc/apt/apt.conf.d/clean"
    rm -rf "$folder/$1"/usr/share/{doc,man,locale,info}/* "$folder/$1"/var/cache/apt/* "$folder/$1"/var/lib/apt/lists/*
}

programs() {
    mkdir -p "$folder"/{debs,programs,plugins,config/cli-plugins}
    (cd "$folder/debs" && apt-get download docker.io containerd runc tini >/dev/null 2>&1) || die "no docker.io"
    unpacked "$folder/debs" "$folder/programs"
    chroot "$folder/trixie" sh -c 'apt-get update && cd /var/tmp && apt-get download docker-compose docker-buildx' \
        >"$folder/plugins.log" 2>&1 || die "no Compose:" "$(tail -n 5 "$folder/plugins.log")"
    unpacked "$folder/trixie/var/tmp" "$folder/plugins"
    rm -rf "$folder"/trixie/var/tmp/*.deb "$folder"/trixie/var/lib/apt/lists/*
    cp "$folder"/plugins/usr/libexec/docker/cli-plugins/* "$folder/config/cli-plugins/"
}

# --- engine ----------------------------------------------------------------------------------------------------------
answers() { docker info >/dev/null 2>&1; }

limited() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        mkdir -p "/sys/fs/cgroup/$group"
        echo 8G >"/sys/fs/cgroup/$group/memory.max"
        echo "200000 100000" >"/sys/fs/cgroup/$group/cpu.max"
    else
        mkdir -p /sys/fs/cgroup/{memory,cpu}/"$group"
        echo 8G >"/sys/fs/cgroup/memory/$group/memory.limit_in_bytes"
        echo 200000 >"/sys/fs/cgroup/cpu/$group/cpu.cfs_quota_us"
    fi
}

daemon() {
    local second
    setsid dockerd --cgroup-parent "/$group" --exec-opt native.cgroupdriver=cgroupfs --data-root "$folder/docker" --exec-root "$folder/exec" -H "unix://$folder/docker.sock" \
        -p "$folder/dockerd.pid" >"$folder/dockerd.log" 2>&1 </dev/null &
    for second in {1..60}; do
        if answers; then
            # The engine has packets dropped that it does not know. Others on this machine may forward some.
            iptables -P FORWARD "$(cat "$folder/forward")"
            return
        fi
        sleep 1
    done
    die "the engine does not answer after $second s:" "$(tail -n 5 "$folder/dockerd.log")"
}

ended() {
    local pid second
    pid=$(cat "$folder/dockerd.pid" 2>/dev/null) || return 0
    kill "$pid" 2>/dev/null || return 0
    for second in {1..60}; do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 1
    done
    die "the engine still runs after $second s"
}

# What an engine changes of the kernel and leaves: the name of its network, its bridge, its rules, and the group of its
# containers. Rules of others stay.
forgotten() {
    local table rule
    if mountpoint --quiet "$folder/exec/netns/default"; then umount "$folder/exec/netns/default"; fi
    ip link delete docker0 2>/dev/null || true
    for table in filter nat; do
        iptables -t "$table" -S | grep -E '^-A .*(DOCKER|docker0)' | while read -r rule; do
            eval "iptables -t $table -D ${rule#-A }" || true
        done
        for rule in $(iptables -t "$table" -S | sed -n 's/^-N \(DOCKER.*\)/\1/p'); do
            iptables -t "$table" -X "$rule" || true
        done
    done
    find /sys/fs/cgroup -depth -type d -path "*/$group*" -exec rmdir {} + 2>/dev/null || true
}

# --- images ----------------------------------------------------------------------------------------------------------
image() { # name, its folder of files beside the Dockerfile on standard input
    cat >"$2/Dockerfile"
    # Without BuildKit these need no registry for what they are made from.
    DOCKER_BUILDKIT=0 docker build --network host --tag "$1" "$2" >"$folder/image.log" 2>&1 ||
        die "the image $1 cannot be built:" "$(tail -n 5 "$folder/image.log")"
}

images() {
    local name bundle=/etc/ssl/certs/ca-certificates.crt
    for name in bookworm trixie; do
        tar -C "$folder/$name" -c . | docker import - "debian:$name-slim" >/dev/null
        rm -rf "${folder:?}/$name"
    done
    mkdir -p "$folder"/image/{python,postgres,kafka}
    image python:3.11-slim-bookworm "$folder/image/python" <<END
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3.11-venv && rm -rf /var/lib/apt/lists/*
ENV SSL_CERT_FILE=$bundle REQUESTS_CA_BUNDLE=$bundle PIP_CERT=$bundle
END
    cat >"$folder/image/postgres/entry.sh" <<'END'
set -eu
data=/var/lib/postgresql/data
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
chown postgres:postgres "$data" /var/run/postgresql
chmod 700 "$data"
if [ ! -s "$data/PG_VERSION" ]; then
    printf %s "$POSTGRES_PASSWORD" >/tmp/password && chown postgres /tmp/password
    as_postgres initdb -D "$data" -U "$POSTGRES_USER" --pwfile=/tmp/password -A scram-sha-256 --auth-local=trust
    rm /tmp/password
    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    as_postgres pg_ctl -D "$data" -o "-c listen_addresses=''" -w start
    as_postgres psql -U "$POSTGRES_USER" -d postgres -c "CREATE DATABASE \"$POSTGRES_DB\""
    for script in /docker-entrypoint-initdb.d/*.sql; do
        as_postgres psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -f "$script"
    done
    as_postgres pg_ctl -D "$data" -m fast -w stop
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups postgres -D "$data" -c "listen_addresses=*"
END
    image postgres:17 "$folder/image/postgres" <<'END'
FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-common \
    && mkdir -p /etc/postgresql-common/createcluster.d \
    && echo create_main_cluster=false >/etc/postgresql-common/createcluster.d/none.conf \
    && apt-get install -y --no-install-recommends postgresql-17 && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /var/lib/postgresql/data /var/run/postgresql
ENV PATH=/usr/lib/postgresql/17/bin:$PATH LANG=C.UTF-8
COPY entry.sh /usr/local/bin/
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["sh", "/usr/local/bin/entry.sh"]
END
    cp -r "$jars" "$folder/image/kafka/libs"
    cat >"$folder/image/kafka/run" <<'END'
set -eu
mkdir -p /tmp/default /tmp/mounted /tmp/final
result=$(java -cp '/opt/kafka/libs/*' kafka.docker.KafkaDockerWrapper setup --default-configs-dir /tmp/default \
    --mounted-configs-dir /tmp/mounted --final-configs-dir /tmp/final 2>&1) ||
    case $result in
        *"already formatted"*) ;; # not the first start
        *) echo "$result" && exit 1 ;;
    esac
exec java ${KAFKA_HEAP_OPTS:-} -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/final/server.properties
END
    image apache/kafka:4.1.1 "$folder/image/kafka" <<'END'
FROM debian:bookworm-slim
RUN mkdir -p /usr/share/man/man1 && apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
COPY libs /opt/kafka/libs
COPY run /etc/kafka/docker/run
RUN useradd --uid 1000 appuser && mkdir -p /var/lib/kafka/data && chown -R appuser /var/lib/kafka
USER appuser
VOLUME /var/lib/kafka/data
CMD ["sh", "/etc/kafka/docker/run"]
END
    rm -rf "$folder/image"
}

# ---------------------------------------------------------------------------------------------------------------------
verb=$1
folder=$2
case $verb in
    start)
        jars=$3
        [ "$(id -u)" -eq 0 ] || die "only root can run an engine"
        command -v apt-get >/dev/null || die "this is no Debian"
        apt-get update >/dev/null 2>&1 || true
        need debootstrap debootstrap
        need iptables iptables
        mkdir -p "$folder"
        iptables -S FORWARD | sed -n 's/^-P FORWARD //p' >"$folder/forward"
        say "making the files of Debian bookworm and trixie"
        root_of bookworm
        root_of trixie
        programs
        export $(variables)
        say "starting the engine"
        limited
        daemon
        say "making the images of Python, PostgreSQL and Kafka"
        images
        variables
        ;;
    stop)
        ended
        forgotten
        rm -rf "$folder"
        ;;
    *) die "container_engine.sh start FOLDER JARS, or stop FOLDER" ;;
esac
