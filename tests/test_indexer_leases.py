"""Leases: what is in use is not closed under anybody's hands."""

from __future__ import annotations

import threading

import pytest

from indexer.leases import EndedError, Leases


def test_without_users_the_end_closes_at_once() -> None:
    """Nobody holds a lease, so closing waits for nobody, and happens once."""
    leases, closed = Leases(), list[str]()
    with leases.lease():
        pass
    leases.end(lambda: closed.append("closed"))
    assert closed == ["closed"]


def test_the_last_user_closes() -> None:
    """While one of two users is left nothing is closed, new ones are refused, and the last one's leaving closes."""
    leases, closed = Leases(), list[str]()
    with leases.lease():
        with leases.lease():
            leases.end(lambda: closed.append("closed"))
            with pytest.raises(EndedError), leases.lease():
                pass
        assert closed == []
    assert closed == ["closed"]


def test_waiting_for_the_end() -> None:
    """Who waits hears whether it is done: not while a user stays, at once when the user goes, also over that user's failure."""
    leases, closed = Leases(), list[str]()
    entered, leave = threading.Event(), threading.Event()

    def use() -> None:
        with leases.lease():
            entered.set()
            leave.wait(10)

    user = threading.Thread(target=use)
    user.start()
    entered.wait(10)
    assert not leases.end_and_wait(lambda: closed.append("first"), 0.01)
    leave.set()
    assert leases.end_and_wait(lambda: closed.append("second"), 10)
    user.join()
    assert sorted(closed) == ["first", "second"]


def test_a_failing_user_lets_go() -> None:
    """A lease ends with its block, however that ends."""
    leases, closed = Leases(), list[str]()
    with pytest.raises(ValueError, match="oops"), leases.lease():
        raise ValueError("oops")
    leases.end(lambda: closed.append("closed"))
    assert closed == ["closed"]
