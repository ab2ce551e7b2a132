# The tools that other scripts install, and where. Source this file, do not run it.
# shellcheck shell=bash

tools="$PWD/target/tools"

# The versions of the tools from crates.io. Those from PyPI are in scripts/locks.
cargo_cyclonedx=0.5.9
cargo_deny=0.20.2
cargo_mutants=27.1.0

need_python() {
    python3 -c 'import ensurepip, venv' 2>/dev/null && return
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3 python3-venv
}

# Installs the Python packages of scripts/locks/NAME.txt into an environment of their own, unless they are there. Each
# file that pip downloads must have a hash from that list.
python_tool() {
    local environment="$tools/$1" lock="scripts/locks/$1.txt"
    if cmp --silent "$lock" "$environment/lock.txt"; then
        return
    fi
    need_python
    python3 -m venv --clear "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement "$lock"
    cp "$lock" "$environment/lock.txt"
}

# `cargo lambda`. With zig it builds for any processor and any glibc.
need_cargo_lambda() {
    python_tool cargo-lambda
}
