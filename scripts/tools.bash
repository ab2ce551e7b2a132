# What the other scripts install, and where. Sourced, never run.
# shellcheck shell=bash

tools="$PWD/target/tools"

# Every pinned tool, in one place.
cargo_deny=0.20.2
cargo_fuzz=0.13.1
cargo_lambda=1.9.2
typos=1.52.0
aws_sam_cli=1.170.0
ziglang=0.17.1

need_python() {
    python3 -c 'import ensurepip, venv' 2>/dev/null && return
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3 python3-venv
}

# Installs a Python package, and others that it needs pinned, into an environment of its own unless it is there.
python_tool() {
    local environment="$tools/$1" package=$2 version=$3
    if [ "$("$environment/bin/pip" show "$package" 2>/dev/null | sed -n 's/^Version: //p')" = "$version" ]; then
        return
    fi
    need_python
    python3 -m venv --clear "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "$package==$version" "${@:4}"
}

# Puts `cargo lambda` on the path; with zig, it builds for any processor and any glibc.
need_cargo_lambda() {
    python_tool cargo-lambda cargo-lambda "$cargo_lambda" "ziglang==$ziglang"
    PATH="$tools/cargo-lambda/bin:$PATH"
}

# Waits until a command succeeds, for five minutes; what runs meanwhile logs to $logs.
await() {
    local what=$1
    shift
    for _ in $(seq 3000); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "$(basename "$0"): waited in vain for $what; the logs are in ${logs:?}" >&2
    return 1
}

# Builds binaries for release, all with the same settings, so that nothing is built twice. Link-time optimisation makes
# them smaller and changes nothing that is looked at here; without it, they are built in half the time.
build_release() {
    export CARGO_PROFILE_RELEASE_LTO=off # for the emulator, too
    cargo build --release --quiet "${@/#/--bin=}"
}

# The functions for this machine, as `cargo lambda watch` builds them.
build_functions() { build_release hookonce-webhook hookonce-worker hookonce-relay; }
