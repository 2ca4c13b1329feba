"""The one script in a real redis-server: the answers of the C algorithms, and what it leaves behind."""
import glob
import os
import re
import subprocess

import pytest

from harness.redis import Client
from harness.wait import until

SOURCE = os.environ.get("SG_SRCDIR", os.path.join(os.path.dirname(__file__), "..", ".."))
STREAM = os.path.join(os.environ.get("SG_BUILDDIR", "."), "tests", "vectors", "stream")
FILES = ["head", "token_bucket", "gcra", "fixed_window", "sliding_window", "sliding_log", "concurrency", "settle", "main"]
TIME = "local time = call('TIME')\n"
GIVEN_TIME = "local time = {ARGV[#ARGV - 1], ARGV[#ARGV]}\n"


def script():
    parts = []
    for name in FILES:
        with open(os.path.join(SOURCE, "lua", name + ".lua")) as f:
            parts.append(f.read())
    return "".join(parts)


@pytest.fixture
def ask(redis):
    """ask(keys, argv) runs the script, as the gateway does; the time of its reply in ms."""
    client = Client(redis.path)
    sha = client("SCRIPT", "LOAD", script())

    def run(keys, *argv):
        reply = client("EVALSHA", sha, len(keys), *keys, *argv)
        return [reply[0] // 1000] + reply[1:]
    yield run
    client.close()


class Stepper:
    """Runs decisions at times that the test gives: the script with its one line about the time exchanged."""

    def __init__(self, redis):
        text = script()
        assert text.count(TIME) == 1 and text.count("'TIME'") == 1
        self.client = Client(redis.path)
        self.sha = self.client("SCRIPT", "LOAD", text.replace(TIME, GIVEN_TIME))

    def run(self, lines, after_each=None):
        """Lines of `stream`; in one pipeline for each trace, unless something is to be looked at after each."""
        sent, differ, count = [], [], 0
        for line in lines + ["new end"]:
            words = line.split()
            if words[0] == "new":
                for asked, expected in sent:
                    got = self.client.read()
                    if expected is not None and got != expected:
                        differ.append((trace, asked, got))
                sent, trace = [], line
                self.client("FLUSHALL")
            elif words[0] == "zrem":
                self.client.send("ZREM", *words[1:])
                sent.append((line, None))
                if after_each:
                    sent.pop()
                    self.client.read()
            else:
                at, equals = int(words[1]), words.index("=")
                self.client.send("EVALSHA", self.sha, *words[2:equals], at // 1000000, at % 1000000)
                sent.append((line, [int(w) for w in words[equals + 1:]]))
                count += 1
                if after_each:
                    asked, expected = sent.pop()
                    assert self.client.read() == expected, (trace, asked)
                    after_each(words[3:equals], at)
        assert not differ, differ[:3]
        return count


def stream(*args):
    return subprocess.run([STREAM, *args], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def vectors(*names):
    paths = [os.path.join(SOURCE, "tests", "vectors", n + ".json") for n in names]
    return stream("vectors", *(paths or sorted(glob.glob(os.path.join(SOURCE, "tests", "vectors", "*.json")))))


def test_traces(redis):
    assert Stepper(redis).run(vectors()) > 3000


def test_random_traces(redis):
    assert Stepper(redis).run(stream("random", "500001", "600")) > 24000


# --- key names and expiry ------------------------------------------------------------------------------------

SHAPES = {
    "token_bucket": (r"rl:tb:v1:\{[A-Za-z0-9_-]{22}\}:c\.[a-c]", "hash", {"tokens", "ts", "frac", "rule", "given"}),
    "gcra": (r"rl:gc:v1:\{[A-Za-z0-9_-]{22}\}:c\.[a-c]", "string", None),
    "fixed_window": (r"rl:fw:v1:\{[A-Za-z0-9_-]{22}\}:c\.[a-c]:([0-9]+|[0-9]+ms):[0-9]+", "string", None),
    "sliding_window": (r"rl:sw:v1:\{[A-Za-z0-9_-]{22}\}:c\.[a-c]:([0-9]+|[0-9]+ms)", "hash", None),
    "sliding_log": (r"rl:sl:v1:\{[A-Za-z0-9_-]{22}\}:c\.[a-c]:([0-9]+|[0-9]+ms)", "zset", None),
    "concurrency": (r"rl:(cc|tb|fw|sl):v1:\{[A-Za-z0-9_-]{22}\}:c\.[a-c](:[0-9]+)*", None, None),
}


@pytest.mark.parametrize("algorithm", sorted(SHAPES))
def test_no_key_without_ttl(redis, algorithm):
    stepper = Stepper(redis)
    pattern, kind, fields = SHAPES[algorithm]
    seen = 0

    def look(asked, at):
        nonlocal seen
        for key in stepper.client("KEYS", "*"):
            assert re.fullmatch(pattern, key), key
            assert stepper.client("PTTL", key) > 0, key
            assert kind is None or stepper.client("TYPE", key) == kind
            if fields:
                assert set(stepper.client("HKEYS", key)) <= fields
            seen += 1
    stepper.run(vectors(algorithm), look)
    assert seen > 300


TAG = "{tenanttenanttenanttena}"


def now_us(client):
    seconds, us = client("TIME")
    return int(seconds) * 1000000 + int(us)


def group(algorithm, limit, client):
    """A key, its group of ARGV, and the life that it must have in ms."""
    if algorithm == "token_bucket":
        return "rl:tb:v1:%s:c.l" % TAG, [1, limit, 1, 600000000, "%d/1/600000000" % limit, 601000], 601000
    if algorithm == "gcra":
        return "rl:gc:v1:%s:c.l" % TAG, [2, limit, 1, 600000000, "1/600000000", 601000], 601000
    if algorithm == "fixed_window":
        day, now = 86400000000, now_us(client)
        left = (day - now % day) // 1000
        return "rl:fw:v1:%s:c.l:86400:%d" % (TAG, now // day), [3, limit, day, now // day, 61000], left + 61000
    if algorithm == "sliding_window":
        return "rl:sw:v1:%s:c.l:600" % TAG, [4, limit, 60000000, 10, 661000], 661000
    if algorithm == "sliding_log":
        return "rl:sl:v1:%s:c.l:600" % TAG, [5, limit, 600000000, 601000], 601000
    return "rl:cc:v1:%s:c.l" % TAG, [6, limit, 600000000, 601000], 601000


@pytest.mark.parametrize("algorithm", sorted(SHAPES))
def test_ttl_is_the_algorithms_and_renewed_on_both_paths(redis, ask, algorithm):
    key, argv, life_ms = group(algorithm, 1, redis)

    def whole():
        return life_ms - 20000 < redis("PTTL", key) <= life_ms + 1
    assert ask([key], 0, "peek", *argv)[1:4] == [1, 1, 1]
    assert redis("DBSIZE") == 0, "a peek writes nothing"
    assert ask([key], 1, "a", *argv)[1:4] == [1, 1, 0]
    assert whole()
    redis("PEXPIRE", key, 5000)
    assert ask([key], 1, "b", *argv)[1:4] == [0, 0, 0]
    assert whole(), "a denied request renews the expiry"
    redis("PERSIST", key)
    assert ask([key], 0, "peek", *argv)[1:4] == [1, 1, 0]
    assert redis("PTTL", key) == -1, "a peek does not"
    ask([key], 1, "c", *argv)
    assert whole()
    # A request that another limit denies renews it as well, and consumes nothing.
    argv[1] = 2
    if algorithm == "token_bucket":
        argv[4] = "2/1/600000000"
    redis("PEXPIRE", key, 5000)
    never = "rl:sl:v1:%s:c.never:600" % TAG
    assert ask([key, never], 1, "d", *argv, 5, 0, 600000000, 601000)[1:4] == [0, 1, 1]
    assert whole()
    assert redis.keys() == [key]


def test_a_fixed_windows_end_is_set_once(redis, ask):
    key, argv, _ = group("fixed_window", 100, redis)
    ends = set()
    for i in range(20):
        reply = ask([key], 1, "r%d" % i, *argv)
        assert reply[3] == 99 - i
        ends.add(reply[0] + reply[4])
        assert abs(reply[0] + redis("PTTL", key) - 61000 - (reply[0] + reply[4])) < 2000
    # Both are rounded to ms, the time down and the reset up.
    assert max(ends) - min(ends) <= 1
    assert (max(ends) % 86400000) in (0, 1)


@pytest.mark.parametrize("number,code,rule", [(1, "tb", "10/1/60000000"), (2, "gc", "1/60000000")])
def test_a_debt_lives_until_it_is_paid(redis, ask, number, code, rule):
    """10 units, one a minute; 1000 owed take 1000 minutes, whoever asks in between."""
    key, minute = "rl:%s:v1:%s:c.l" % (code, TAG), 60000
    argv = (number, 10, 1, 60000000, rule, 11 * minute)
    reply = ask([key], 5, "a", *argv)
    assert reply[1] == 1 and redis("PTTL", key) <= 11 * minute
    assert ask([key], "settle", "a", 5, 995, reply[0] * 1000, *argv, 5, 0)[1] == 1
    assert 998 * minute < redis("PTTL", key) < 1100 * minute
    denied = ask([key], 1, "b", *argv)
    assert denied[1:4] == [0, 0, 0] and 990 * minute < denied[5] <= 991 * minute
    assert 998 * minute < redis("PTTL", key) < 1100 * minute
    # A refund of another request cannot give back what time has not brought, but takes of the debt.
    assert ask([key], "settle", "c", 3, -3, reply[0] * 1000, *argv, 3, 0)[1] == 1
    assert 987 * minute < ask([key], 1, "d", *argv)[5] <= 989 * minute
    assert 990 * minute < redis("PTTL", key) < 1100 * minute


def test_a_settlement_of_the_wrong_bucket_writes_nothing(redis, ask):
    key, argv, _ = group("fixed_window", 5, redis)
    bucket, more, _ = group("token_bucket", 5, redis)
    wrong = argv[:3] + [argv[3] + 1] + argv[4:]
    at = ask([bucket], 0, "look", *more)[0] * 1000
    assert ask([bucket, key], "settle", "a", 1, 4, at, *more, 1, 0, *wrong, 1, 0)[1:] == [2]
    assert redis("DBSIZE") == 0
    assert ask([bucket, key], "settle", "a", 1, 4, at, *more, 1, 0, *argv, 1, 0)[1:] == [1]
    assert redis("GET", key) == "4" and redis("HGET", bucket, "tokens") == str(int(more[1]) - 4)
    assert redis("PTTL", key) > 0 and redis("PTTL", bucket) > 0


# --- answers in Redis's own time -----------------------------------------------------------------------------

def test_sliding_log_of_3_per_1000_ms(redis, ask):
    key = "rl:sl:v1:%s:c.l:1" % TAG

    def log(cost, lease):
        return ask([key], cost, lease, 5, 3, 1000000, 2000)
    replies = [log(1, "r%d" % i) for i in range(5)]
    if replies[4][0] - replies[0][0] < 1000:
        assert [r[1] for r in replies] == [1, 1, 1, 0, 0]
        assert [r[3] for r in replies] == [2, 1, 0, 0, 0]
    assert 0 < replies[4][5] <= 1000
    until("the log is empty", lambda: log(0, "peek")[3] == 3)
    reply = log(1, "again")
    assert reply[1] == 1 and reply[3] == 2
    assert reply[0] - replies[0][0] >= 1000
    assert redis("ZCARD", key) == 1


def test_a_wrong_bucket_writes_nothing(redis, ask):
    key, argv, _ = group("fixed_window", 5, redis)
    other = "rl:sl:v1:%s:c.log:1" % TAG
    wrong = argv[:3] + [argv[3] + 1] + argv[4:]
    reply = ask([other, key], 1, "a", 5, 3, 1000000, 2000, *wrong)
    assert reply[1:] == [2]
    assert reply[0] // 86400000 == argv[3]
    assert redis("DBSIZE") == 0
    assert ask([other, key], 1, "a", 5, 3, 1000000, 2000, *argv)[1] == 1
    assert redis("DBSIZE") == 2


def test_the_time_is_asked_once(redis, ask):
    key, argv, _ = group("fixed_window", 5, redis)
    bucket, more, _ = group("token_bucket", 5, redis)
    redis("CONFIG", "RESETSTAT")
    for i in range(10):
        ask([key, bucket], 1, "r%d" % i, *argv, *more)
    stats = dict(re.findall(r"cmdstat_(\w+):calls=(\d+)", redis("INFO", "commandstats")))
    assert stats["evalsha"] == stats["time"] == "10"
    # 5 of 10 passed.
    assert stats["incrby"] == stats["hset"] == "5"
