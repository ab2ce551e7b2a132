#!/usr/bin/env bash
# Speaks to the Runtime API as a function would. `take` leaves the invocation in `id` and `event`.
# shellcheck disable=SC2034
host=${AWS_LAMBDA_RUNTIME_API%%/*}
api=${host/://}
invocations=/2018-06-01/runtime/invocation
path=/${AWS_LAMBDA_RUNTIME_API#*/}$invocations
take() {
    exec 3<>"/dev/tcp/$api"
    printf 'GET %s/next HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$path" "$host" >&3
    while IFS= read -r line <&3 && line=${line%$'\r'} && [ -n "$line" ]; do
        case $line in
            lambda-runtime-aws-request-id:*) id=${line#*: } ;;
            content-length:*) length=${line#*: } ;;
        esac
    done
    IFS= read -r -N "$length" event <&3
}
answer() {
    exec 3<>"/dev/tcp/$api"
    printf 'POST %s/%s/%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' \
        "$path" "$id" "$1" "$host" "${#2}" "$2" >&3
    cat <&3 >/dev/null
}
# The status that the request $1, its method and path, gets with the header lines $2; 0 while it gets no answer.
status_of() {
    exec 3<>"/dev/tcp/$api"
    printf '%s HTTP/1.1\r\n%s\r\nConnection: close\r\nContent-Length: 1\r\n\r\n0' "$1" "$2" >&3
    local version status=0 rest
    read -r -t 5 version status rest <&3
    printf '%s' "$status"
}
