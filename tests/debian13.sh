#!/bin/bash
# debian13.sh RESULTS: what git knows of this tree, built and tested in a Debian 13 that is made for it, on any Debian as root or with sudo:
# with libmicrohttpd 1.0, Redis 8 and TLS to it; then the tests of the store once more, with Valkey in Redis's place.
# The results lie in RESULTS/redis and RESULTS/valkey, as tests/count.sh reads them.
set -euo pipefail

die() {
    printf 'debian13.sh: %s\n' "$*" >&2
    exit 1
}

say() {
    printf '\n==> %s (after %d s)\n' "$*" "$SECONDS"
}

# --- outside ---------------------------------------------------------------------------------------------

# The Debian mirror of this machine's own apt.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' | sed -n 1p
}

# The system lives in a tmpfs in namespaces of its own. However this ends, the kernel ends every process in there, and with the last of
# them the mounts and all files are gone: nothing is unmounted or deleted by hand.
outside() {
    local pid uri
    uri=$(mirror)
    [ -n "$uri" ] || { apt-get update -q && uri=$(mirror); }
    [ -n "$uri" ] || die "apt of this machine is not configured with a mirror of Debian"
    for tool in debootstrap git setpriv unshare; do
        command -v "$tool" >/dev/null || die "$tool is missing (Debian: apt install debootstrap git util-linux)"
    done
    rm -rf "$results/redis" "$results/valkey" "$results/tree.tar"
    mkdir -p "$results/root"
    git ls-files -z | tar -cf "$results/tree.tar" --no-recursion --null --files-from=-
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$0" "$results" "$uri" &
    pid=$!
    trap 'kill -KILL "$pid" 2>/dev/null; rm -f "$results/tree.tar"; exit 1' HUP INT TERM
    local status=0
    wait "$pid" || status=$?
    rm -f "$results/tree.tar"
    rmdir "$results/root"
    chown -R --reference=. "$results"
    return "$status"
}

# --- in namespaces of its own ----------------------------------------------------------------------------

# in_system COMMAND...: in the Debian 13, in the folder of the tree.
in_system() {
    env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} \
        SLOTGATE_SECOND_TRY="${SLOTGATE_SECOND_TRY-}" SG_STORE_INFO="${SG_STORE_INFO-}" SG_MODEL_SECONDS="${SG_MODEL_SECONDS-10}" \
        chroot "$root" /bin/sh -c 'cd /slotgate && exec "$@"' sh "$@"
}

make_system() {
    mount -t tmpfs -o mode=755 slotgate-debian13 "$root" || die "mount is refused: this needs a machine, or a container with CAP_SYS_ADMIN"
    if ! debootstrap --variant=minbase --include=ca-certificates trixie "$root" "$1" >"$results/debootstrap.log" 2>&1; then
        tail -n 20 "$results/debootstrap.log" >&2
        [ ! -s "$root/debootstrap/debootstrap.log" ] || tail -n 20 "$root/debootstrap/debootstrap.log" >&2
        die "debootstrap failed"
    fi
    mount -t proc proc "$root/proc"
    cp /etc/hosts /etc/resolv.conf "$root/etc/"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    mkdir "$root/slotgate"
    tar -C "$root/slotgate" --no-same-owner -xf "$results/tree.tar"
}

# expect TEXT COMMAND...: its output must have the text; it says what is tested.
expect() {
    local text=$1 output
    shift
    output=$(in_system "$@" 2>&1) || die "failed: $*: $output"
    printf '%s\n' "$output"
    case $output in
    *"$text"*) ;;
    *) die "$* does not say \"$text\": this is not what is to be tested" ;;
    esac
}

# keep NAME: the results so far; what comes next begins with none.
keep() {
    local found
    mkdir -p "$results/$1"
    found=$(cd "$root/slotgate/_build" && find . -path ./config.log -prune -o \( -name '*.trs' -o -name '*.log' -o -name '*.junit.xml' \) -print)
    tar -C "$root/slotgate/_build" -cf - --files-from=- <<<"$found" | tar -C "$results/$1" --no-same-owner -xf -
    (cd "$root/slotgate/_build" && rm -f -- tests/*/*.trs ./*.junit.xml)
}

test_with_redis() {
    local status=0
    SG_STORE_INFO=redis_version:8. in_system ./bootstrap test || status=$?
    expect 'libmicrohttpd: 1.0' _build/slotgate -V
    expect 'TLS: yes' _build/slotgate -V
    return "$status"
}

# Redis leaves, so no test can meet it by mistake.
valkey_for_redis() {
    in_system apt-get install -y -q --no-install-recommends valkey-server valkey-tools redis-server- redis-tools- \
        >"$results/valkey.apt.log" 2>&1 || { tail -n 20 "$results/valkey.apt.log" >&2; die "Valkey cannot be installed"; }
    for tool in server cli; do
        ln -s "/usr/bin/valkey-$tool" "$root/usr/local/bin/redis-$tool"
    done
    expect valkey redis-cli --version
    in_system redis-server --version
}

test_with_valkey() {
    local status=0
    export SG_STORE_INFO=server_name:valkey SG_MODEL_SECONDS=3
    in_system make -s -C _build check TESTS='$(STORE_TESTS) tests/unit/test_cli_explain_redis' || status=$?
    in_system make -s -C _build check-e2e PYTEST_ARGS="-k '$store_e2e'" || status=$?
    return "$status"
}

store_e2e="(test_redis or test_outage or test_cluster or test_limits or test_deny_cache or test_cost or test_blocks or test_model \
or test_script or test_usage_reset or test_doctor) and not stay_flat"

inside() {
    local status=0
    root=$results/root
    make_system "$1"
    say "Debian $(cat "$root/etc/debian_version"): everything, with Redis"
    test_with_redis || status=1
    keep redis
    say "The tests of the store, with Valkey"
    valkey_for_redis
    test_with_valkey || status=1
    keep valkey
    say "Done"
    return "$status"
}

# ---------------------------------------------------------------------------------------------------------

case $# in
1 | 2) results=$1 ;;
*)
    echo "usage: debian13.sh RESULTS" >&2
    exit 64
    ;;
esac
[ "$(id -u)" -eq 0 ] || exec sudo env SLOTGATE_SECOND_TRY="${SLOTGATE_SECOND_TRY-}" "$0" "$1"
cd "$(dirname "$0")/.."
results=$(realpath -m "$results")
if [ $# -eq 1 ]; then
    outside
else
    inside "$2"
fi
