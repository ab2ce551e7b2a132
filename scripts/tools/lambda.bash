# What Lambda can run.

# The shared libraries that a binary may use: those in Lambda's own image.
system_libraries='^(libc|libm|libgcc_s|libpthread|libdl|ld-linux-x86-64|ld-linux-aarch64)\.so\.[0-9]+$'

# Checks that Lambda can run a binary: right machine type, small, and no library that the image lacks.
lambda_can_run() {
    local bytes
    bytes=$(stat -c %s "$1")
    [ "$bytes" -lt 10000000 ] || { echo "$1 has $bytes bytes, 10000000 or more"; return 1; }
    lambda_can_load "$@"
}

# Whatever its size, which link-time optimisation halves.
lambda_can_load() {
    local file=$1 machine=$2 strange newest
    readelf --file-header "$file" | grep -q "Machine: .*$machine" || { echo "$file is not for $machine"; return 1; }
    strange=$(readelf --dynamic "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' | grep -Ev "$system_libraries" || true)
    [ -z "$strange" ] || { echo "$file needs $strange"; return 1; }
    newest=$(readelf --version-info "$file" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1)
    # provided.al2023 has glibc 2.34.
    [ "$(printf '%s\nGLIBC_2.34\n' "$newest" | sort -V | tail -1)" = GLIBC_2.34 ] || { echo "$file needs $newest"; return 1; }
    echo "$file: $machine, $(stat -c %s "$file") bytes, $newest"
}
