"""Jobs, workers' options and waits that the tests of faults have in common."""

from services import wait_until

COMMIT_SOON = ("--commit-interval-ms", "50")
SESSION = ("--kafka.session.timeout.ms", "6000", "--kafka.heartbeat.interval.ms", "500")
NULL = ("--engine", "null", "--json", *COMMIT_SOON, *SESSION)
# The null engine ends a job so long after it came, 16 of them at a time: 80 a second.
SLOWLY = ("--null-delay-us", "200000", "--max-queue-size", "16", "--high-water", "32")


def ids(first, count):
    return [f"j{i}" for i in range(first, first + count)]


def jobs(names):
    return [{"request_id": name, "prompt": f"Answer {name}"} for name in names]


def await_states(space, names, state, timeout_s=30):
    def others():
        return [i for i in names if space.status(i).get("state") != state]
    try:
        wait_until(lambda: not others(), timeout_s, f"all are {state}", step_s=0.1)
    except TimeoutError as error:
        left = others()
        raise TimeoutError(f"{error}; {len(left)} of {len(names)} are not: "
                           f"{[(i, space.status(i).get('state')) for i in left[:5]]}") from error
