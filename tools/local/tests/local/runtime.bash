#!/usr/bin/env bash
# Speaks to the Runtime API as a function would. `take` leaves the invocation in `id` and `event`.
# shellcheck disable=SC2034
api=${AWS_LAMBDA_RUNTIME_API/://}
path=/2018-06-01/runtime/invocation
take() {
    exec 3<>"/dev/tcp/$api"
    printf 'GET %s/next HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$path" "$AWS_LAMBDA_RUNTIME_API" >&3
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
        "$path" "$id" "$1" "$AWS_LAMBDA_RUNTIME_API" "${#2}" "$2" >&3
    cat <&3 >/dev/null
}
# The status that an answer to the invocation $1 gets which comes with the header lines $2.
status_of_answer() {
    exec 3<>"/dev/tcp/$api"
    printf 'POST %s/%s/response HTTP/1.1\r\n%s\r\nConnection: close\r\nContent-Length: 1\r\n\r\n0' "$path" "$1" "$2" >&3
    local version status rest
    read -r version status rest <&3
    printf '%s' "$status"
}
