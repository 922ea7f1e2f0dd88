"""Clocks that wait for the next who needs one, made up."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, cast

import pytest

from cleave.runtime.clocks import Clocks


class Stub:
    """Counts what is asked of it; `able` says whether its process can take other work."""

    def __init__(self, able: bool = True) -> None:
        self.able = able
        self.rests = 0
        self.abandoned = False
        self.closed = threading.Event()

    def rest(self) -> bool:
        assert not self.closed.is_set()
        self.rests += 1
        return self.able

    def close(self) -> None:
        self.closed.set()

    def abandon(self) -> None:
        self.abandoned = True


def clocks(able: bool = True, idle: float = 60.0) -> tuple[Clocks, list[Stub]]:
    made: list[Stub] = []

    def make() -> Any:
        made.append(Stub(able))
        return made[-1]

    return Clocks(make, idle), made


def test_the_next_gets_the_one_that_came_back() -> None:
    pool, made = clocks()
    for _ in range(3):
        with pool.lent() as clock:
            assert cast(Any, clock) is made[0]
    assert len(made) == 1 and made[0].rests == 3 and not made[0].closed.is_set()
    pool.close()
    assert made[0].closed.is_set()


def test_several_at_once_get_their_own_and_one_waits() -> None:
    pool, made = clocks()
    with pool.lent() as one, pool.lent() as other:
        assert one is not other
    assert [stub.closed.is_set() for stub in made] == [False, True], "the last that came back is the one that was lent first"


def test_one_whose_work_failed_is_ended() -> None:
    """Ctrl-C may come between a question and its answer."""
    pool, made = clocks()
    with pytest.raises(KeyboardInterrupt), pool.lent():
        raise KeyboardInterrupt
    assert made[0].closed.is_set() and not made[0].rests
    with pool.lent():
        assert len(made) == 2


def test_one_without_a_process_does_not_wait() -> None:
    pool, made = clocks(able=False)
    for _ in range(2):
        with pool.lent():
            pass
    assert len(made) == 2


def test_what_waits_long_is_ended() -> None:
    pool, made = clocks(idle=0.05)
    with pool.lent():
        time.sleep(0.1)
        assert not made[0].closed.is_set(), "while it is used it does not wait"
    assert made[0].closed.wait(10)
    with pool.lent():
        assert len(made) == 2


def test_many_threads_share_no_clock() -> None:
    pool, made = clocks(idle=0.001)
    used: set[int] = set()
    lock = threading.Lock()

    def work() -> None:
        for _ in range(50):
            with pool.lent() as clock:
                with lock:
                    assert id(clock) not in used
                    used.add(id(clock))
                assert not cast(Any, clock).closed.is_set()
                with lock:
                    used.discard(id(clock))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.close()
    assert all(stub.closed.wait(10) for stub in made)


def test_a_fork_leaves_what_waits_to_its_parent() -> None:
    pool, made = clocks()
    with pool.lent():
        pass
    os.register_at_fork(after_in_child=pool.forget)
    child = os.fork()
    if child == 0:
        with pool.lent():
            os._exit(len(made) + 10 * made[0].abandoned + 100 * made[0].closed.is_set())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 12
    with pool.lent():
        assert len(made) == 1
