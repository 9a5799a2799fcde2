"""The number of BLAS threads while several threads of a process compute."""

from __future__ import annotations

from threading import Event, Thread

from threadpoolctl import threadpool_info, threadpool_limits

from opcal._threads import one_thread


def blas():
    import scipy.linalg  # noqa: F401

    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_whoever_leaves_first_leaves_the_other_on_one_thread():
    inside, leave = Event(), Event()

    def other():
        with one_thread():
            inside.set()
            leave.wait()

    with threadpool_limits(2, user_api="blas"):
        thread = Thread(target=other)
        thread.start()
        inside.wait()
        with one_thread():
            assert blas() == {1}
            leave.set()
            thread.join()
            assert blas() == {1}  # the other one left, and did not give back two threads
        assert blas() == {2}
