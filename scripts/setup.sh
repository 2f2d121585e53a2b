#!/usr/bin/env bash
# Makes .venv from the lock and makes sure of a Java that Spark 4.3 runs on.
#
# Safe to run at any time: done already, it ends in a fraction of a second; interrupted at any point, the next run
# repairs what was left. Needs CPython 3.11. Where it is root on Debian or Ubuntu it installs the system packages that
# are missing; elsewhere it stops and prints the one command to run.
#
# --tests: also makes sure of the programs that the tests need: Chromium, Maven, PostgreSQL's server,
# promtool and nginx. --without-archive: leaves the class archive to a later run, which can be beside other work.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
venv=.venv
python=$venv/bin/python
tests='' archive=1
for argument in "$@"; do
    case $argument in
    --tests) tests=1 ;;
    --without-archive) archive='' ;;
    esac
done
stamp=$venv/.setup-done          # holds the fingerprint of what the environment was made from
unfinished=$venv/.setup-unfinished # is there while packages are being written

say() { if [ -t 1 ]; then printf '\033[2m[setup]\033[0m %s\n' "$*"; else printf '[setup] %s\n' "$*"; fi; }
die() {
    printf '[setup] %s\n' "$@" >&2
    exit 1
}

# One set-up at a time in a checkout: `make test` beside `make demo` waits here. The kernel frees the lock.
exec 9<"$root"
flock 9

# --- system packages -------------------------------------------------------------------------------------------------
can_install() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

install() { # what they are for, packages
    local purpose=$1 command log
    shift
    command="apt-get update && apt-get install -y --no-install-recommends $*"
    if [[ " $* " == *" postgresql "* ]]; then
        # The tests start their own servers: the package must not create and start one of the system.
        local folder=/etc/postgresql-common/createcluster.d
        command="mkdir -p $folder && echo create_main_cluster=false >$folder/streamwarden-tests.conf && $command"
    fi
    if ! can_install; then
        die "$purpose is missing." "Run this command, then the same make target again:" "    sudo sh -c '$command'"
    fi
    await_programs # one apt at a time
    say "installing $* ($purpose)"
    log=$(mktemp)
    # 9<&-: a daemon that a package starts must not inherit the lock.
    if ! DEBIAN_FRONTEND=noninteractive sh -c "$command" >"$log" 2>&1 9<&-; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "$* could not be installed (see above). Run: $command"
    fi
    rm -f "$log"
}

programs='' # the process that installs the programs for the tests, while Python's packages come
await_programs() {
    local process=$programs
    programs=''
    [ -z "$process" ] || wait "$process"
}

# --- programs for the tests ------------------------------------------------------------------------------------------
missing_for_tests() { # prints packages
    local name
    for name in chromium-headless-shell chromium chromium-browser google-chrome none; do
        if command -v "$name" >/dev/null; then break; fi
    done
    [ "$name" != none ] || echo chromium-headless-shell # the engine without windows: a tenth of the processor time for a page
    command -v mvn >/dev/null || echo maven
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || echo postgresql
}

install_for_tests() { # packages
    install "a program that the tests need" "$@"
    mapfile -t missing < <(missing_for_tests)
    ((${#missing[@]} == 0)) || die "still missing after the installation: ${missing[*]}"
}

if [ -n "$tests" ]; then
    mapfile -t missing < <(missing_for_tests)
    if ((${#missing[@]})) && ! can_install; then
        install_for_tests "${missing[@]}"
    elif ((${#missing[@]})); then
        install_for_tests "${missing[@]}" &
        programs=$!
        trap 'status=$?; await_programs || status=1; exit $status' EXIT # says why they are missing, whatever failed first
    fi
fi

# --- Python ----------------------------------------------------------------------------------------------------------
is_311() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; }

# The system's first: Debian and Ubuntu build theirs with profile-guided optimisation, pyenv does not unless it is told to,
# and every process of Airflow and of a driver then takes 8 to 14 % more processor time.
find_python() {
    local candidate
    for candidate in "${PYTHON:-}" /usr/bin/python3.11 python3.11 /usr/local/bin/python3.11 python3 python; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 && is_311 "$candidate" && can_make "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

can_make() { can_install || "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; } # a .venv, if need be after an installation

fingerprint() {
    { printf '%s\n' "$root"; cat packaging/uv.txt requirements.txt pyproject.toml packaging/*/pyproject.toml; } |
        sha256sum | cut -d' ' -f1
}

is_done() {
    [ -f "$stamp" ] && [ ! -e "$unfinished" ] && [ "$(cat "$stamp")" = "$wanted" ] && [ -x $venv/bin/streamwarden ] &&
        is_311 $python
}

make_environment() {
    local base
    if [ -e "$unfinished" ] || { [ -e $venv ] && ! { is_311 $python && $python -m pip --version >/dev/null 2>&1; }; }; then
        say "an earlier set-up was interrupted: starting afresh"
        rm -rf $venv
    fi
    if [ ! -e $venv ]; then
        base=$(find_python) || {
            install "CPython 3.11" python3.11-venv
            base=$(find_python) || die "no CPython 3.11 found." "Install it, or name it: PYTHON=/path/to/python3.11 make setup"
        }
        if ! "$base" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            install "Python's venv module" python3.11-venv
        fi
        say "making $venv with $base"
        "$base" -m venv $venv
    fi
    : >"$unfinished"
    say "installing the locked packages (the first time: about a minute)"
    $python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes -r packaging/uv.txt
    # uv compares each file with the lock's hashes. It compiles once, here: otherwise each of Airflow's first processes
    # does it for itself, or, where Python must not write bytecode, every process does it every time.
    $venv/bin/uv pip sync --quiet --compile-bytecode --python $python requirements.txt
    $venv/bin/uv pip install --quiet --python $python --no-deps --editable .
    printf '%s\n' "$wanted" >"$stamp"
    rm -f "$unfinished"
}

wanted=$(fingerprint)
started=$SECONDS
if ! is_done; then # not `is_done || …`: that would switch off `set -e` within
    make_environment
    say "the environment is ready after $((SECONDS - started)) s"
fi

await_programs

# --- programs that come without their service ------------------------------------------------------------------------
# They are taken out of Debian's packages: to install these would also start a Prometheus or an nginx on this machine.
download() { (cd "$2" && apt-get download "$1") >/dev/null 2>&1 9<&-; }

fetch() { # program, Debian's package, path in the package
    local folder missing="$1 is missing." command="Install $2, so that $1 is in the PATH, and run the same target again."
    if [ -x "$venv/bin/$1" ] || command -v "$1" >/dev/null; then return; fi
    command -v apt-get >/dev/null || die "$missing" "$command"
    say "fetching $1 (a program that the tests need)"
    folder=$(mktemp -d)
    if ! download "$2" "$folder" && ! { can_install && apt-get update >/dev/null 2>&1 9<&- && download "$2" "$folder"; }; then
        rm -rf "$folder"
        die "$missing apt-get cannot download the package $2." "$command"
    fi
    dpkg-deb --fsys-tarfile "$folder"/*.deb | tar -xO "./$3" >"$venv/bin/$1.part"
    chmod +x "$venv/bin/$1.part"
    mv "$venv/bin/$1.part" "$venv/bin/$1"
    rm -rf "$folder"
}

if [ -n "$tests" ]; then
    fetch promtool prometheus usr/bin/promtool
    fetch nginx nginx usr/sbin/nginx
fi

# --- Java ------------------------------------------------------------------------------------------------------------
java_problem() { # prints nothing if a usable Java is there
    PYTHONPATH=src $python -S - <<'PY' 2>&1
from streamwarden.adapters.jvm.java import find_java
from streamwarden.errors import StreamwardenError
try:
    find_java()
except StreamwardenError as error:
    print(error.observed)
PY
}

problem=$(java_problem)
if [ -n "$problem" ]; then
    say "$problem"
    install "a Java that Spark 4.3 runs on" openjdk-17-jre-headless
    problem=$(java_problem)
    [ -z "$problem" ] || die "still $problem"
fi

# --- class archive ---------------------------------------------------------------------------------------------------
# The archive only saves time, so a failure is reported and does not stop the set-up. `prepared` names the archive it was made as.
prepared=$venv/.setup-prepared
if [ -n "$archive" ] && ! { [ -f "$prepared" ] && [ -f "$(cat "$prepared")" ] && [ "$prepared" -nt "$stamp" ]; }; then
    started=$SECONDS
    say "archiving the classes that Spark drivers load, so that they start faster"
    if $python -m streamwarden.cli prepare >/dev/null 9<&-; then
        printf '%s\n' $venv/share/streamwarden/classes-*.jsa >"$prepared"
        say "archived after $((SECONDS - started)) s"
    else
        say "no archive (see above): drivers start as usual, more slowly"
    fi
fi
