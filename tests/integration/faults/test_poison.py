"""A job that kills its worker at once, before anybody can be told that it runs."""

from test_crash import put_one_poison_aside


def test_puts_a_poison_aside_that_kills_in_its_first_step(space, start_worker_of):
    put_one_poison_aside(space, start_worker_of, "in_prefill", 4)  # the first is not counted
