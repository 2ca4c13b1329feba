/* What a file must not say: each with its place and the words of its message. */
#include "config_fixture.h"

typedef struct {
    const char *yaml;
    unsigned line, column;
    const char *part;
} bad_case_t;

static void run(void **state, const bad_case_t *cases, size_t n)
{
    fixture_t *f = *state;
    size_t failed = 0;
    for (size_t i = 0; i < n; i++) {
        fixture_load(f, cases[i].yaml);
        if (f->config || !fixture_find(f, cases[i].line, cases[i].column, cases[i].part)) {
            print_message("case %zu:\n%s\nexpected %u:%u \"%s\", found:\n", i, cases[i].yaml, cases[i].line,
                          cases[i].column, cases[i].part);
            sg_diags_print(&f->diags, stderr);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}
#define RUN(state, cases) run((state), (cases), sizeof(cases) / sizeof(cases)[0])

static void test_yaml(void **state)
{
    static const bad_case_t cases[] = {
        {"", 0, 0, "empty"},
        {"# nothing\n", 0, 0, "empty"},
        {"- a\n", 1, 1, "a list, expected a map"},
        {"just text\n", 1, 1, "expected a map"},
        {"server:\n\tworkers: 1\n", 2, 1, "tab"},
        {"server: {workers: 1\n", 2, 1, "YAML syntax"},
        {"server: \"open\n", 2, 1, "YAML syntax"},
        {"log: {level: info}\n---\nlog: {level: info}\n", 2, 1, "second YAML document"},
        {"log: &a {level: info}\n", 1, 6, "anchor"},
        {"log: *a\n", 1, 6, "alias"},
        {"log: !thing {level: info}\n", 1, 6, "tag"},
        {"log: {level: !!str info}\n", 1, 14, "tag"},
        {"log:\n  <<: {level: info}\n", 2, 3, "merge key"},
        {"log: {level: info, level: warn}\n", 1, 20, "duplicate key \"level\""},
        {"log: {level: info}\nserver: {}\nlog: {}\n", 3, 1, "line 1"},
        {"log: {[a, b]: info}\n", 1, 7, "a list as a key"},
        {"log: {level: \"in\\0fo\"}\n", 1, 14, "NUL"},
        {"log: {'': info}\n", 1, 7, "empty key"},
        {"log: {level: \xff}\n", 1, 14, "UTF-8"},
    };
    RUN(state, cases);
}

static void test_unknown_keys(void **state)
{
    static const bad_case_t cases[] = {
        {"servr: {}\n", 1, 1, "did you mean \"server\""},
        {"server: {worker: 1}\n", 1, 10, "did you mean \"workers\""},
        {"server: {tls: {cert: a}}\n", 1, 16, "unknown key \"cert\""},
        {"identity: {failures: {limt: 5}}\n", 1, 23, "did you mean \"limit\""},
        {"classes: {a: [{name: x, algorithm: fixed_window, limt: 5, window: 1m}]}\n", 1, 50,
         "did you mean \"limit\""},
        {"upstreams: {u: {targets: [{url: http://a, wieght: 2}]}}\n", 1, 43, "did you mean \"weight\""},
        {"routes: [{name: a, match: {pth: /}, respond: {}}]\n", 1, 28, "did you mean \"path\""},
        {"tenants: {a: {kyes: []}}\n", 1, 15, "did you mean \"keys\""},
        {"store: {password: hunter2}\n", 1, 9, "did you mean \"password_file\""},
        {"ratelimit: {}\n", 1, 1, "expected one of: server, admin"},
    };
    RUN(state, cases);
}

static void test_types(void **state)
{
    static const bad_case_t cases[] = {
        {"server: [a]\n", 1, 9, "a list, expected a map"},
        {"server: {listen: {a: b}}\n", 1, 18, "a map, expected an address"},
        {"server: {listen: []}\n", 1, 18, "empty list"},
        {"server: {listen: example.com:80}\n", 1, 18, "bad address"},
        {"server: {listen: [':80', '127.0.0.1:0x']}\n", 1, 26, "bad address"},
        {"server: {listen: ['127.0.0.1:80', '127.0.0.1:80']}\n", 1, 35, "twice"},
        {"server: {workers: 0}\n", 1, 19, "1 to 1024, or auto"},
        {"server: {workers: many}\n", 1, 19, "1 to 1024, or auto"},
        {"server: {max_connections: \"5 \"}\n", 1, 27, "bad value \"5 \""},
        {"server: {max_connections: \"5\"}\n", 1, 27, "without quotes"},
        {"server: {max_connections: 1e3}\n", 1, 27, "integer"},
        {"server: {max_connections: yes}\n", 1, 27, "integer"},
        {"server: {max_connections: -1}\n", 1, 27, "1 to 10000000"},
        {"server: {max_connections: }\n", 1, 27, "nothing, expected an integer"},
        {"server: {watch: yes}\n", 1, 17, "true or false"},
        {"server: {watch: \"true\"}\n", 1, 17, "true or false, without quotes"},
        {"server: {header_timeout: 10}\n", 1, 26, "a duration like"},
        {"server: {header_timeout: 2fortnights}\n", 1, 26, "a duration like"},
        {"server: {header_timeout: 1ms}\n", 1, 26, "10ms to 1h"},
        {"server: {max_body_size: 10MB}\n", 1, 25, "a size like"},
        {"server: {headers: drft}\n", 1, 19, "one of draft, legacy, both, none"},
        {"server: {trusted_proxies: 10.0.0.0/8}\n", 1, 27, "expected a list"},
        {"server: {trusted_proxies: [127.0.0.1/33]}\n", 1, 28, "a prefix"},
        {"server: {trusted_proxies: ['::1/129']}\n", 1, 28, "a prefix"},
        {"server: {trusted_proxies: [1.2.3]}\n", 1, 28, "a prefix"},
        {"server: {trusted_proxies: [01.2.3.4]}\n", 1, 28, "a prefix"},
        {"server: {trusted_proxies: [10.0.0.1/8]}\n", 1, 28, "no bit set beyond"},
        {"server: {tls: {certificate: nope.crt, key: nope.key}}\n", 1, 29, "nope.crt"},
        {"server: {tls: {}}\n", 1, 15, "certificate is missing"},
        {"log: {level: loud}\n", 1, 14, "one of error, warn, info, debug"},
        {"log: {format: xml}\n", 1, 15, "json or text"},
        {"log: {access: ''}\n", 1, 15, "stdout, off"},
        {"metrics: {max_tenants: 1.5}\n", 1, 24, "integer"},
        {"admin: {listen: '0.0.0.0:9180'}\n", 1, 17, "without a token"},
        {"admin: {listen: ['127.0.0.1:1', '0.0.0.0:9180']}\n", 1, 17, "without a token"},
        {"admin: {token_file: missing.token}\n", 1, 21, "missing.token"},
        {"log: {access: '${SG_TEST_NOT_SET}'}\n", 1, 15, "SG_TEST_NOT_SET is not set"},
        {"log: {access: '${tenant}'}\n", 1, 15, "request variable"},
        {"log: {access: ${NAME}}\n", 1, 16, "write ${NAME} in quotes"},
    };
    unsetenv("SG_TEST_NOT_SET");
    RUN(state, cases);
}

static void test_store(void **state)
{
    static const bad_case_t cases[] = {
        {"store: {type: etcd}\n", 1, 15, "one of memory, redis"},
        {"store: {url: 'http://a'}\n", 1, 14, "redis://host"},
        {"store: {url: 'redis://a:0'}\n", 1, 14, "redis://host"},
        {"store: {url: 'redis://a:70000/0'}\n", 1, 14, "redis://host"},
        {"store: {url: 'redis://a:1/x'}\n", 1, 14, "redis://host"},
        {"store: {url: 'redis://u:secret@a:1/0'}\n", 1, 14, "not shown"},
        {"store: {mode: sentinel}\n", 1, 15, "nodes is missing"},
        {"store: {mode: sentinel, nodes: ['a:1']}\n", 1, 15, "master is missing"},
        {"store: {nodes: [a]}\n", 1, 17, "host:port"},
        {"store: {username: gw}\n", 1, 19, "without a password"},
        {"store: {password_file: nope}\n", 1, 24, "nope"},
        {"store: {timeout: 0s}\n", 1, 18, "1ms to 1m"},
        {"store: {on_failure: shut}\n", 1, 21, "local, open or closed"},
        {"store: {local_share: 1.5}\n", 1, 22, "0 to 1"},
        {"store: {key_prefix: 'a:b'}\n", 1, 21, "A-Z a-z 0-9"},
        {"store: {key_prefix: aaaaaaaaaaaaaaaaa}\n", 1, 21, "1 to 16"},
        {"store: {key_version: v123456789}\n", 1, 22, "1 to 8"},
        {"identity: {api_key: [{}]}\n", 1, 22, "neither header nor query"},
        {"identity: {api_key: [{header: a, query: b}]}\n", 1, 22, "both"},
        {"identity: {api_key: [{query: b, scheme: c}]}\n", 1, 41, "scheme without header"},
        {"identity: {api_key: [{header: ''}]}\n", 1, 31, "empty header"},
        {"identity: {api_key: [{header: 'a b'}]}\n", 1, 22, "bad header name"},
        {"identity: {api_key: [{header: A}, {header: a}]}\n", 1, 35, "twice"},
        {"identity: {api_key: [a]}\n", 1, 22, "expected a map"},
        {"identity: {ipv6_prefix: 129}\n", 1, 25, "1 to 128"},
        {"identity: {failures: {window: 400d}}\n", 1, 31, "366d"},
    };
    RUN(state, cases);
}

#define CLASS(limit) "classes:\n  a:\n    - {" limit "}\n"
static void test_limits(void **state)
{
    static const bad_case_t cases[] = {
        {CLASS("name: x, algorithm: fixed_window, window: 1m"), 3, 7, "limit is missing"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5"), 3, 7, "window is missing"},
        {CLASS("name: x, algorithm: token_bucket, capacity: 5"), 3, 7, "refill is missing"},
        {CLASS("name: x, limit: 5, window: 1m"), 3, 7, "algorithm is missing"},
        {CLASS("algorithm: fixed_window, limit: 5, window: 1m"), 3, 7, "name is missing"},
        {CLASS("name: '', algorithm: fixed_window, limit: 5, window: 1m"), 3, 14, "empty name"},
        {CLASS("name: a.b, algorithm: fixed_window, limit: 5, window: 1m"), 3, 14, "bad name"},
        {CLASS("name: x, algorithm: leaky, limit: 5, window: 1m"), 3, 28, "one of token_bucket, gcra"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m, capacity: 3"), 3, 64, "does not fit"},
        {CLASS("name: x, algorithm: fixed_window, limit: 9007199254740992, window: 1m"), 3, 49,
         "9007199254740991"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 367d"), 3, 60, "366d"},
        {CLASS("name: x, algorithm: fixed_window, limit: unlimited, window: 1m"), 3, 49, "plans and tenants"},
        {CLASS("name: x, algorithm: sliding_window, limit: 5, window: 1m, precision: 101"), 3, 77,
         "1 to 100"},
        {CLASS("name: x, algorithm: token_bucket, capacity: 5, refill: 10"), 3, 63, "a rate like"},
        {CLASS("name: x, algorithm: token_bucket, capacity: 9007199254740992, refill: 1/s"), 3, 52,
         "9007199254740991"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m, per: user"), 3, 69,
         "tenant, key, ip, all"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m, block: 5"), 3, 71,
         "block without per: all"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m}\n    - {name: x, algorithm: gcra, "
               "rate: 1/s, burst: 1"),
         4, 7, "twice"},
        {"classes: {identity: [{name: failures, algorithm: gcra, rate: 1/s, burst: 1}]}\n", 1, 22,
         "identity.failures"},
        {"classes: {a.b: []}\n", 1, 11, "bad name"},
        {"classes: {a: {}}\n", 1, 14, "a map, expected a list"},
        {"classes: {a: [5]}\n", 1, 15, "expected a map"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m") "plans: {p: {a.y: {limit: 1}}}\n", 4,
         13, "did you mean \"a.x\""},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m") "plans: {p: {a.x: {capacity: 1}}}\n",
         4, 19, "does not fit algorithm fixed_window, expected limit, window"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m") "plans: {p: {a.x: {per: ip}}}\n", 4,
         19, "unknown key \"per\""},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m") "tenants: {t: {limits: {b.x: "
                                                                         "{limit: 1}}}}\n",
         4, 24, "unknown limit \"b.x\""},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m") "plans: {p: {a.x: 5}}\n", 4, 18,
         "expected a map"},
        {CLASS("name: x, algorithm: gcra, rate: 1/s, burst: 5, per: all") "plans: {p: {a.x: {burst: 9}}}\n",
         4, 13, "one budget for everybody"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m, per: all") "tenants: {t: {limits: "
                                                                                   "{a.x: "
                                                                                   "{limit: 9}}}}\n",
         4, 24, "expected limit: unlimited or nothing"},
        {CLASS("name: x, algorithm: fixed_window, limit: 5, window: 1m, per: all, block: 6"), 3, 81,
         "block: 6 of 5 units, expected at most the limit"},
        {CLASS("name: x, algorithm: concurrency, limit: 5, per: all, block: 2"), 3, 68,
         "block with concurrency"},
        {CLASS("name: x, algorithm: sliding_log, limit: 5, window: 90ms, per: all, block: 2"), 3, 82,
         "less than 10 ms"},
        {CLASS("name: x, algorithm: gcra, rate: 1000/s, burst: 500, per: all, block: 9"), 3, 77,
         "less than 10 ms"},
        {CLASS("name: x, algorithm: token_bucket, capacity: 15, refill: 1/s, per: all, block: 15"), 3, 86,
         "of which 1 are set aside"},
        {"plans: {_p: {}}\n", 1, 9, "begin with _"},
        {"plans: {p: {a.x: {limit: 1}}}\n", 1, 13, "unknown limit \"a.x\""},
        {"log: {access: \"\\n${SG_TEST_NOT_SET}\"}\n", 1, 15, "is not set"},
    };
    RUN(state, cases);
}

#define DIGEST "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
static void test_tenants(void **state)
{
    static const bad_case_t cases[] = {
        {"tenants: {_other: {}}\n", 1, 11, "begin with _"},
        {"tenants: {\"a\\tb\": {}}\n", 1, 11, "printable"},
        {"tenants: {\"a\\x85b\": {}}\n", 1, 11, "printable"},
        {"tenants: {' a': {}}\n", 1, 11, "printable"},
        {"tenants: {aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeefffffffffffffff: {}}\n", 1, 11, "64"},
        {"tenants: {a: []}\n", 1, 14, "a list, expected a map"},
        {"tenants: {a: {plan: gold}}\n", 1, 21, "unknown plan \"gold\""},
        {"plans: {gold: {}}\ntenants: {a: {plan: glod}}\n", 2, 21, "did you mean \"gold\""},
        {"tenants: {a: {keys: [{id: k}]}}\n", 1, 22, "sha256 is missing"},
        {"tenants: {a: {keys: [{sha256: " DIGEST "}]}}\n", 1, 22, "id is missing"},
        {"tenants: {a: {keys: [{id: k, sha256: abc}]}}\n", 1, 38, "64 hexadecimal digits"},
        {"tenants: {a: {keys: [{id: k, sha256: " DIGEST "0}]}}\n", 1, 38, "64 hexadecimal digits"},
        {"tenants: {a: {keys: [{id: k, sha256: " DIGEST ", expires: soon}]}}\n", 1, 113,
         "2027-01-01T00:00:00Z"},
        {"tenants: {a: {keys: [{id: k, sha256: " DIGEST ", disabled: 1}]}}\n", 1, 114, "true or false"},
        {"tenants:\n  a: {keys: [{id: k, sha256: " DIGEST "}]}\n  b: {keys: [{id: l, sha256: " DIGEST "}]}\n",
         3, 30, "on line 2"},
        {"tenants: {anonymous: {keys: [{id: k, sha256: " DIGEST "}]}}\n", 1, 23, "callers without a key"},
        {"tenants_files: 5\n", 1, 16, "a list of paths"},
    };
    RUN(state, cases);
}

#define TARGET(url) "upstreams:\n  u:\n    targets:\n      - url: " url "\n"
static void test_upstreams(void **state)
{
    static const bad_case_t cases[] = {
        {TARGET("http://"), 4, 14, "http://host"},
        {TARGET("http://a/"), 4, 14, "nothing after the port"},
        {TARGET("http://a/path"), 4, 14, "nothing after the port"},
        {TARGET("unix:a.sock"), 4, 14, "an absolute one"},
        {TARGET("http://a?q=1"), 4, 14, "http://host"},
        {TARGET("http://user@a"), 4, 14, "not shown"},
        {TARGET("file:///etc/passwd"), 4, 14, "http://host"},
        {TARGET("ftp://a"), 4, 14, "http://host"},
        {TARGET("a:80"), 4, 14, "http://host"},
        {TARGET("http://a:0"), 4, 14, "http://host"},
        {TARGET("http://a:70000"), 4, 14, "http://host"},
        {TARGET("'http://a:'"), 4, 14, "http://host"},
        {TARGET("http://:80"), 4, 14, "http://host"},
        {TARGET("http://1.2.3"), 4, 14, "http://host"},
        {TARGET("http://01.2.3.4"), 4, 14, "http://host"},
        {TARGET("http://[::1"), 4, 14, "http://host"},
        {TARGET("http://[1.2.3.4]"), 4, 14, "http://host"},
        {TARGET("http://a b"), 4, 14, "http://host"},
        {TARGET("unix:relative"), 4, 14, "unix:/path"},
        {TARGET("http://a\n      - url: http://a"), 5, 14, "twice"},
        {TARGET("http://a\n        weight: 0"), 5, 17, "1 to 1000"},
        {"upstreams: {u: {targets: []}}\n", 1, 26, "at least one target"},
        {"upstreams: {u: {}}\n", 1, 16, "targets is missing"},
        {"upstreams: {u: {targets: [a]}}\n", 1, 27, "expected a map"},
        {TARGET("http://a\n    retry_on: [timeout]"), 5, 16, "connect, reset, 502"},
        {TARGET("http://a\n    retries: 11"), 5, 14, "0 to 10"},
        {TARGET("http://a\n    health: {interval: 5s}"), 5, 13, "path is missing"},
        {TARGET("http://a\n    health: {path: /, status: 200-600}"), 5, 31, "100 to 599"},
        {TARGET("http://a\n    health: {path: 'x y'}"), 5, 20, "begins with /"},
        {TARGET("http://a\n    balance: random"), 5, 14, "round_robin"},
        {TARGET("http://a\n    tls: {ca: nope.pem}"), 5, 15, "nope.pem"},
        {"upstreams: {_none: {targets: [{url: http://a}]}}\n", 1, 13, "begin with _"},
    };
    RUN(state, cases);
}

#define ROUTE(more)    "routes:\n  - name: a\n    match: {path: /a}\n" more
#define OK_ROUTE(more) ROUTE("    respond: {}\n" more)
static void test_routes(void **state)
{
    static const bad_case_t cases[] = {
        {"routes: {}\n", 1, 9, "a map, expected a list"},
        {"routes: [a]\n", 1, 10, "expected a map"},
        {"routes: [{match: {path: /}, respond: {}}]\n", 1, 10, "name is missing"},
        {"routes: [{name: '', match: {path: /}, respond: {}}]\n", 1, 17, "empty name"},
        {"routes: [{name: _none, match: {path: /}, respond: {}}]\n", 1, 17, "begin with _"},
        {"routes: [{name: a, respond: {}}]\n", 1, 10, "match is missing"},
        {"routes: [{name: a, match: {}, respond: {}}]\n", 1, 27, "path is missing"},
        {"routes: [{name: a, match: {path: a}, respond: {}}]\n", 1, 34, "path"},
        {"routes: [{name: a, match: {path: '/a/*/b'}, respond: {}}]\n", 1, 34, "path"},
        {"routes: [{name: a, match: {path: /, host: 'a b'}, respond: {}}]\n", 1, 43, "host name"},
        {"routes: [{name: a, match: {path: /, host: 'a:80'}, respond: {}}]\n", 1, 43, "without a port"},
        {"routes: [{name: a, match: {path: /, methods: [get]}, respond: {}}]\n", 1, 47, "in capitals"},
        {"routes: [{name: a, match: {path: /, methods: [TRACE]}, respond: {}}]\n", 1, 47, "in capitals"},
        {"routes: [{name: a, match: {path: /, methods: [GET, CONNECT]}, respond: {}}]\n", 1, 52,
         "in capitals"},
        {"routes: [{name: a, match: {path: /, methods: []}, respond: {}}]\n", 1, 46, "empty list"},
        {ROUTE(""), 2, 5, "neither upstream nor respond"},
        {ROUTE("    upstream: u\n    respond: {}\n"), 2, 5, "both upstream and respond"},
        {ROUTE("    upstream: u\n"), 4, 15, "unknown upstream \"u\""},
        {"upstreams: {users: {targets: [{url: http://a}]}}\n" ROUTE("    upstream: usrs\n"), 5, 15,
         "did you mean \"users\""},
        {OK_ROUTE("    classes: [nope]\n"), 5, 15, "unknown class \"nope\""},
        {"classes: {search: []}\n" OK_ROUTE("    classes: [serach]\n"), 6, 15, "did you mean \"search\""},
        {"classes: {c: []}\n" OK_ROUTE("    classes: [c, c]\n"), 6, 18, "twice"},
        {OK_ROUTE("    auth: maybe\n"), 5, 11, "required, optional, none"},
        {OK_ROUTE("    cost: -1\n"), 5, 11, "integer"},
        {OK_ROUTE("    cost: {reserve: 1}\n"), 5, 11, "from is missing"},
        {OK_ROUTE("    cost: {reserve: 1, from: request_kib}\n"), 5, 30, "response_kib"},
        {OK_ROUTE("    cost: {reserve: 1, from: {}}\n"), 5, 30, "response_header is missing"},
        {OK_ROUTE("    cost: {reserve: 1, from: {response_header: ''}}\n"), 5, 48, "a header name"},
        {OK_ROUTE("    cost: {reserve: 0, from: response_kib}\n"), 5, 21, "an integer from 1 to"},
        {OK_ROUTE("    cost: {reserve: 1, from: {response_header: X-Cost}}\n"), 5, 11, "answers by itself"},
        {OK_ROUTE("    rewrite: {}\n"), 5, 14, "neither path nor strip_prefix"},
        {OK_ROUTE("    rewrite: {path: x}\n"), 5, 21, "begins with /"},
        {OK_ROUTE("    rewrite: {path: '/x/:id'}\n"), 5, 14, "no parameter \":id\""},
        {OK_ROUTE("    rewrite: {strip_prefix: /b}\n"), 5, 29, "does not begin"},
        {OK_ROUTE("    strip_prefix: /b\n"), 5, 19, "does not begin"},
        {OK_ROUTE("    rewrite: {path: /x}\n    strip_prefix: /a\n"), 6, 5, "beside rewrite"},
        {OK_ROUTE("    request_headers: {set: {'a b': c}}\n"), 5, 29, "bad header name"},
        {OK_ROUTE("    request_headers: {set: {Host: c}}\n"), 5, 29, "gateway's own"},
        {OK_ROUTE("    request_headers: {set: {Connection: c}}\n"), 5, 29, "gateway's own"},
        {OK_ROUTE("    request_headers: {set: {A: \"x\\ny\"}}\n"), 5, 32, "bad header value"},
        {OK_ROUTE("    request_headers: {set: {A: \"x\", a: y}}\n"), 5, 37, "twice"},
        {OK_ROUTE("    request_headers: {set: {A: '${user}'}}\n"), 5, 32, "unknown variable \"user\""},
        {OK_ROUTE("    response_headers: {remove: A}\n"), 5, 32, "a list of header names"},
        {OK_ROUTE("    response_headers: {remove: [Content-Length]}\n"), 5, 33, "gateway's own"},
        {OK_ROUTE("    on_store_failure: never\n"), 5, 23, "local, open or closed"},
        {OK_ROUTE("    odd_paths: allow\n"), 5, 16, "refuse, pass"},
        {ROUTE("    respond: {status: 199}\n"), 4, 23, "200 to 599"},
        {ROUTE("    respond: {status: 204, body: x}\n"), 4, 34, "expected none"},
        {ROUTE("    respond: {headers: {Transfer-Encoding: x}}\n"), 4, 25, "gateway's own"},
        {OK_ROUTE("  - {name: b, match: {path: /a}, respond: {}}\n"), 5, 22, "route \"a\" on line 3"},
        {OK_ROUTE("  - {name: a, match: {path: /b}, respond: {}}\n"), 5, 12, "twice"},
        {OK_ROUTE("  - {name: b, match: {path: /a, methods: [GET]}, respond: {}}\n"
                  "  - {name: c, match: {path: /a, methods: [PUT, GET]}, respond: {}}\n"),
         6, 22, "route \"b\" on line 5"},
    };
    RUN(state, cases);
}

/* All errors of a file at once, in the order of their places. */
static void test_all_at_once(void **state)
{
    fixture_t *f = *state;
    fixture_load(f, "routes: [{name: a, match: {path: /}}]\nserver: {workers: x, watch: y}\nlog: {level: "
                    "z}\nstore: {typ: a}\n");
    assert_int_equal(f->diags.errors, 5);
    assert_int_equal(f->diags.count, 5);
    for (size_t i = 1; i < f->diags.count; i++) {
        const sg_diag_t *a = &f->diags.at[i - 1], *b = &f->diags.at[i];
        assert_true(a->line < b->line || (a->line == b->line && a->column < b->column));
    }
    assert_string_equal(f->diags.at[0].file, f->path);
}

/* What stands where a secret could stand is never shown. */
static void test_secrets_stay_secret(void **state)
{
    static const char *const texts[] = {
        "store: {url: 'redis://u:hunter2@a/0'}\n",
        "store: {password: hunter2}\n",
        "upstreams: {u: {targets: [{url: 'http://u:hunter2@a'}]}}\n",
        "tenants: {a: {keys: [{id: k, sha256: hunter2}]}}\n",
        "server: {workers: '${SG_TEST_SECRET}'}\n",
        "routes: [{name: a, match: {path: /}, response_headers: {set: {A: \"${SG_TEST_SECRET}\\n\"}}}]\n",
    };
    fixture_t *f = *state;
    setenv("SG_TEST_SECRET", "hunter2", 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fixture_load(f, texts[i]);
        assert_true(f->diags.errors > 0);
        for (size_t j = 0; j < f->diags.count; j++)
            assert_null(strstr(f->diags.at[j].text, "hunter2"));
    }
}

static void test_bounds(void **state)
{
    fixture_t *f = *state;
    size_t size = (10u << 20) + 1;
    char *big = test_malloc(size + 1);
    memset(big, '[', 1000);
    fixture_load_n(f, big, 1000);
    assert_non_null(fixture_find(f, 1, 33, "nested too deep, expected at most 32"));
    memset(big, '#', size);
    fixture_load_n(f, big, size);
    assert_int_equal(f->diags.errors, 1);
    assert_non_null(strstr(f->diags.at[0].text, "10 MiB"));
    test_free(big);
    fixture_load(f, "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n");
    assert_true(f->diags.errors >= 7);
}

/* A hostile file does not turn into a report without end; the count stays exact. */
static void test_many_errors(void **state)
{
    fixture_t *f = *state;
    sg_buf_t b;
    sg_buf_init(&b, 1 << 22);
    sg_buf_z(&b, "server:\n");
    for (unsigned i = 0; i < 20000; i++)
        sg_buf_printf(&b, "  k%u: 1\n", i);
    fixture_load_n(f, sg_buf_str(&b).p, sg_buf_len(&b));
    sg_buf_deinit(&b);
    assert_int_equal(f->diags.errors, 20000);
    assert_true(f->diags.count < 10000);
}

static void test_no_file(void **state)
{
    fixture_t *f = *state;
    fixture_clear(f);
    f->config = sg_config_load("/nonexistent/slotgate.yaml", NULL, &f->diags);
    assert_null(f->config);
    assert_int_equal(f->diags.errors, 1);
    assert_non_null(strstr(f->diags.at[0].text, "/nonexistent/slotgate.yaml"));
    fixture_clear(f);
    f->config = sg_config_load(f->dir, NULL, &f->diags);
    assert_null(f->config);
    assert_int_equal(f->diags.errors, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yaml),        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_types),       cmocka_unit_test(test_store),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_tenants),
        cmocka_unit_test(test_upstreams),   cmocka_unit_test(test_routes),
        cmocka_unit_test(test_all_at_once), cmocka_unit_test(test_secrets_stay_secret),
        cmocka_unit_test(test_bounds),      cmocka_unit_test(test_many_errors),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
