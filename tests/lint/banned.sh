#!/bin/sh
# banned.sh [ROOT]: functions that nobody calls here, because a safer one exists. Comments and strings do not count.
set -eu

root=${1:-${SG_SRCDIR:-$(dirname "$0")/../..}}
cd "$root"

find src -name '*.[ch]' | sort | xargs awk '
    BEGIN {
        list("strcpy strcat sprintf vsprintf strtok atoi atol atof sscanf gets gmtime localtime strerror rand srand system popen alloca", \
             "is banned: use the bounded or re-entrant one of base/")
        list("malloc calloc realloc free strdup strndup asprintf vasprintf", "belongs in base/mem.c only: use sg_malloc and its family")
    }
    function list(names, why,  i, n, word) {
        n = split(names, word, " ")
        for (i = 1; i <= n; i++) reason[word[i]] = why
    }
    FNR == 1 { comment = 0 }
    {
        line = $0
        gsub(/\\./, "", line)
        gsub(/"[^"]*"/, "\"\"", line)
        gsub(/\/\*([^*]|\*[^\/])*\*\//, " ", line)
        if (comment) {
            if (!index(line, "*/")) next
            line = substr(line, index(line, "*/") + 2)
            comment = 0
        }
        if (match(line, /\/\*/)) { comment = 1; line = substr(line, 1, RSTART - 1) }
        sub(/\/\/.*/, "", line)
        while (match(line, /[A-Za-z_][A-Za-z_0-9]* *\(/)) {
            name = substr(line, RSTART, RLENGTH)
            sub(/ *\($/, "", name)
            before = RSTART > 1 ? substr(line, RSTART - 1, 1) : ""
            line = substr(line, RSTART + RLENGTH)
            if (!(name in reason) || before == "." || before == ">") continue
            if (FILENAME == "src/base/mem.c" && reason[name] ~ /mem\.c/) continue
            print FILENAME ":" FNR ": " name "() " reason[name]
            bad = 1
        }
    }
    END { exit bad }'
