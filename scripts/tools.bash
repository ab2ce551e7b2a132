# The tools that other scripts install, and where. Source this file, do not run it.
# shellcheck shell=bash

tools="$PWD/target/tools"

# The versions of all tools.
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

# Installs a Python package, with other pinned packages that it needs, into its own environment, if it is missing.
python_tool() {
    local environment="$tools/$1" package=$2 version=$3
    if [ "$("$environment/bin/pip" show "$package" 2>/dev/null | sed -n 's/^Version: //p')" = "$version" ]; then
        return
    fi
    need_python
    python3 -m venv --clear "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "$package==$version" "${@:4}"
}

# `cargo lambda`. With zig it builds for any processor and any glibc.
need_cargo_lambda() {
    python_tool cargo-lambda cargo-lambda "$cargo_lambda" "ziglang==$ziglang"
}
