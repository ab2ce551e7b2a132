#!/bin/sh
# Starts the stack of `make dev` with empty tables, delivers one event three times, and waits until it is applied, once.
# What the stack prints is in target/stack.log.
set -eu
data=target/stack
rm -rf "$data"
mkdir -p target
make --silent dev port=0 data="$data" >target/stack.log 2>&1 &
stack=$!
finish() {
    status=$?
    kill "$stack" 2>/dev/null && wait "$stack" || true
    [ "$status" = 0 ] || cat target/stack.log >&2
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

hookonce() {
    cargo hookonce "$@" --data "$data"
}

# Tries a command for a minute, until it succeeds.
soon() {
    end=$(($(date +%s) + 60))
    until "$@"; do
        if [ "$(date +%s)" -ge "$end" ] || ! kill -0 "$stack" 2>/dev/null; then
            exit 1
        fi
        sleep 0.2
    done
}

is_applied() {
    hookonce show stripe evt_first --json | grep -q '"APPLIED"'
}

soon test -e "$data/stack.json"
hookonce route deploy routes.json
hookonce trigger stripe.invoice.paid --id first --copies 3
soon is_applied
hookonce audit --scan
