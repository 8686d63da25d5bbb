from dpd.router.breaker import Breaker


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def broken(clock):
    breaker = Breaker(failures=2, pause_s=1.0, clock=clock)
    breaker.fail()
    breaker.fail()
    return breaker


def test_it_stays_closed_below_the_limit():
    breaker = Breaker(failures=2, pause_s=1.0)
    breaker.fail()
    assert breaker.allows()
    assert not breaker.open


def test_a_success_starts_the_count_anew():
    breaker = Breaker(failures=2, pause_s=1.0)
    breaker.fail()
    breaker.succeed()
    breaker.fail()
    assert not breaker.open


def test_it_opens_at_the_limit_for_its_pause():
    clock = Clock()
    breaker = broken(clock)
    assert not breaker.allows()
    assert breaker.retry_in_s() == 1.0
    clock.now += 1.0
    assert breaker.allows()


def test_only_one_trial_at_a_time():
    clock = Clock()
    breaker = broken(clock)
    clock.now += 1.0
    breaker.begin()
    assert not breaker.allows()


def test_a_trial_without_a_verdict_lets_the_next_try():
    clock = Clock()
    breaker = broken(clock)
    clock.now += 1.0
    breaker.begin()
    breaker.end_trial()
    assert breaker.allows()


def test_a_failed_trial_doubles_the_pause_up_to_sixteen_times():
    clock = Clock()
    breaker = broken(clock)
    pauses = []
    for _ in range(7):
        pauses.append(breaker.retry_in_s())
        clock.now += pauses[-1]
        breaker.begin()
        breaker.fail()
    assert pauses == [1, 2, 4, 8, 16, 16, 16]


def test_failures_of_requests_from_before_do_not_lengthen_the_pause():
    clock = Clock()
    breaker = broken(clock)
    for _ in range(20):
        breaker.fail()
    assert breaker.retry_in_s() == 1.0


def test_only_the_trial_is_one():
    clock = Clock()
    breaker = broken(clock)
    assert not breaker.begin()
    clock.now += 1.0
    assert breaker.begin()
    assert not breaker.begin()


def test_a_successful_trial_closes_it():
    clock = Clock()
    breaker = broken(clock)
    clock.now += 1.0
    breaker.begin()
    breaker.succeed()
    assert breaker.allows()
    assert not breaker.open
