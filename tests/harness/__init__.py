"""Runs multi-rank tests under plain ``pytest``, in one report.

A test that needs ranks says so with pytest-mpi's mark::

    @pytest.mark.mpi(min_size=2)
    def test_exchange() -> None:
        ...

Every rank runs the same body. Plain ``pytest`` turns it into one item per world size (``test_exchange[n=2]``,
``test_exchange[n=3]``, ...), leaving out sizes below ``min_size``. Items of one size share one long-lived
``mpiexec -n N``, started when the first of them is due; serial tests run first, in this process, and there is
never more than one such job at a time.

How a test runs::

    pytest (plugin.py, item.py)                          mpiexec -n N (world.py starts it)
        MpiItem ── "run test_exchange" ───────────────►  rank.py on each rank: an ordinary pytest session
                                                         whose loop waits for the name of the next test
        merge.py ◄── reports, one list per rank ───────  after the test
        one report, as if the test had run here

The agreement after each test is this exchange: the next test is named only when every rank has reported,
so that a rank that fails early cannot meet the others in the wrong collective. If ranks do not come out
alike (one failed, others passed; one hangs; one died), messages may be left over in MPI, so the world is
ended and a new one runs the rest, at most ``--mpi-restarts`` times per size. A rank that does not come
back within the test's limit (``@pytest.mark.timeout(s)`` or ``--mpi-timeout``), or a few seconds after
another rank failed, has its stacks dumped into the test's failure.

Options: ``--mpi-sizes 1,2,3,4``, ``--mpi-timeout 150``, ``--mpi-restarts 5``. ``-k``, ``-m``, ``-x`` and node
ids work as ever. By hand, ``mpiexec -n 3 python -m pytest --only-mpi`` runs the same tests without any of
this, as pytest-mpi does.

Files: ``plugin`` (options, hooks), ``item`` (one test in one world size), ``world`` (one mpiexec and what is
known of its ranks), ``merge`` (reports of n ranks into one), ``rank`` (what runs in the ranks), ``wire``
(messages between them).
"""
