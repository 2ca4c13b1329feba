#!/bin/sh
# spin.sh: the model of blocks.pml, by spin: the protocol in a full search of each instance, without an error; and each
# mutant, in which spin must find one. Two searches at a time, each within 1 GB. Needs spin and a C compiler.
set -eu

model=$(cd "$(dirname "$0")" && pwd)/blocks.pml

# What is wanted, a name, and the constants and macros of the instance.
cases() {
    two='-DG=2 -DL=2 -DB=2 -DBLOCKS=1'
    window="-DALGO=FIXED $two -DW=2 -DS=2 -DH=3"
    log="-DALGO=LOG $two -DW=2 -DS=1 -DH=3"
    bucket='-DALGO=BUCKET -DG=2 -DL=3 -DB=2 -DBLOCKS=1 -DR=1 -DS=1 -DH=3'
    cat <<END
holds bucket $bucket
holds log -DALGO=LOG $two -DW=2 -DS=1 -DH=4
holds window,two-blocks -DALGO=FIXED -DG=2 -DL=2 -DB=1 -DBLOCKS=2 -DW=2 -DS=2 -DH=3
holds window -DALGO=FIXED $two -DW=3 -DS=3 -DH=5
holds window,short-lives -DALGO=FIXED $two -DW=3 -DS=1 -DH=3
holds window,three-gateways -DALGO=FIXED -DG=3 -DL=2 -DB=1 -DBLOCKS=1 -DW=2 -DS=2 -DH=2
holds window,nothing-leaks $window -DCALM
holds log,nothing-leaks $log -DCALM
breaks window $window -DMUTANT_LATE_COMER
breaks window $window -DMUTANT_LIFE_FROM_REPLY
breaks window $window -DMUTANT_BEYOND_WINDOW
breaks window $window -DMUTANT_BACK_TWICE
breaks window $window -DMUTANT_RESERVED_GOES_BACK
breaks window $window -DMUTANT_REFUND_NOW
breaks log $log -DMUTANT_LATE_COMER
breaks log $log -DMUTANT_LIFE_FROM_REPLY
breaks log $log -DMUTANT_LOG_SHORT
breaks log $log -DMUTANT_REFUND_NOW
breaks bucket $bucket -DMUTANT_OTHERS_STAY
breaks bucket $bucket -DMUTANT_REFUND_ALL
breaks bucket $bucket -DMUTANT_FULL_CAPACITY
breaks bucket $bucket -DMUTANT_LIFE_FROM_REPLY
breaks window,nothing-leaks $window -DCALM -DMUTANT_PUT_BACK_LOST
breaks window,nothing-leaks $window -DCALM -DMUTANT_LATE_REPLY_KEPT
breaks window,nothing-leaks $window -DCALM -DMUTANT_KEPT_AT_CLOSE
breaks window,nothing-leaks $window -DCALM -DMUTANT_DENIED_AT_ONCE
breaks log,nothing-leaks $log -DCALM -DMUTANT_LATE_REPLY_KEPT
END
}

# search MACRO...: in an empty folder.
search() {
    spin -a "$@" "$model" || return 1
    # shellcheck disable=SC2086 # CC may have arguments
    ${CC:-gcc} -O2 -w -DSAFETY -DNOREDUCE -DCOLLAPSE -DMEMLIM=950 -o pan pan.c || return 1
    ./pan -m200000 -w23
}

# one WANTED NAME MACRO...: prints a line, ends with 1 when spin says otherwise.
one() {
    wanted=$1 name=$2
    shift 2
    for macro; do
        case $macro in -DMUTANT_*) name="$name, ${macro#-DMUTANT_}" ;; esac
    done
    folder=$(mktemp -d "$SPIN_FOLDER/XXXXXX")
    cd "$folder"
    search "$@" >said 2>&1 || true      # pan ends with 0 in any case
    states=$(awk '/states, stored/ { print $1 }' said)
    seconds=$(sed -n 's/^pan: elapsed time \([0-9.]*\).*/\1/p' said)
    found=unclear
    if grep -q 'errors: 0$' said; then
        grep -q -i -e 'depth too small' -e 'not completed' -e 'out of memory' -e 'memory limit' said || found=holds
    elif grep -q '^pan:1: assertion violated' said; then
        found=breaks
    fi
    result=ok status=0
    [ "$found" = "$wanted" ] || result=WRONG status=1
    printf '%-6s %-42s %-7s %9s states %7s s\n' "$result" "$name" "$found" "$states" "$seconds"
    [ $status -eq 0 ] || tail -n 30 said
    rm -rf "$folder"
    exit $status
}

if [ "${1:-}" = one ]; then
    shift
    one "$@"
fi
command -v spin >/dev/null || { echo 'the model needs spin (Debian: apt install spin)' >&2; exit 1; }
SPIN_FOLDER=$(mktemp -d)
export SPIN_FOLDER
trap 'rm -rf "$SPIN_FOLDER"' EXIT
trap 'exit 1' INT TERM
# xargs ends with something else than 0 when one of them does.
cases | xargs -P 2 -L 1 "$0" one
