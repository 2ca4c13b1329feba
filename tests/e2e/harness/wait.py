import time

DEADLINE_S = 20


def until(what, condition, deadline_s=DEADLINE_S):
    """Poll until condition() is true, and return its value; an AssertionError names `what` when it never is."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "never happened: " + what
        time.sleep(0.005)
