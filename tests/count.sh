#!/bin/sh
# count.sh BUILD-DIR...: sums the results of unit tests and lints (*.trs) and of pytest (*.junit.xml) below the folders.
# Prints "N passed, N failed" alone on its line; ends with 1 when a test failed or none ran.
set -eu

if [ $# -eq 0 ]; then
    echo "usage: count.sh BUILD-DIR..." >&2
    exit 64
fi

{
    find "$@" -name '*.trs' -exec sed -n 's/^:test-result: *\([A-Z]*\).*/\1/p' {} +
    find "$@" -name '*.junit.xml' -exec awk '
        BEGIN { RS = "<" }
        function attribute(name,  text) {
            if (!match($0, " " name "=\"[0-9]+\"")) return 0
            text = substr($0, RSTART, RLENGTH)
            gsub(/[^0-9]/, "", text)
            return text + 0
        }
        /^testsuite / {
            bad = attribute("failures") + attribute("errors")
            good = attribute("tests") - bad - attribute("skipped")
            for (i = 0; i < good; i++) print "PASS"
            for (i = 0; i < bad; i++) print "FAIL"
            for (i = attribute("skipped"); i > 0; i--) print "SKIP"
        }' {} +
} | awk '
    /^(PASS|XFAIL)$/ { passed++ }
    /^(FAIL|ERROR|XPASS)$/ { failed++ }
    /^SKIP$/ { skipped++ }
    END {
        if (skipped) printf "%d skipped\n", skipped
        printf "%d passed, %d failed\n", passed, failed
        exit (failed > 0 || passed == 0)
    }'
