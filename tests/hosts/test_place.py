"""What ranks on several hosts get, and what becomes of what they print and read."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

TELL = """
    import json, os, socket, sys
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    here = world.Split_type(MPI.COMM_TYPE_SHARED)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR")
    hidden = [name for name in os.environ if name in ("SHARDWISE_CONTROL", "SHARDWISE_LAUNCH_KEY")]
    print(json.dumps({
        "place": [os.environ[name] for name in names], "mpi": [world.rank, world.size, here.rank, here.size],
        "port": os.environ["MASTER_PORT"], "run": os.environ["SHARDWISE_RUN_ID"],
        "mine": os.environ.get("MINE"), "hidden": hidden,
        "host": socket.gethostname(), "cores": sorted(os.sched_getaffinity(0)),
        "folder": os.getcwd(), "argv": sys.argv[1:],
    }))
"""


def told(line: str) -> dict[str, Any]:
    return dict(json.loads(line))


def test_every_rank_knows_its_place(site: Any) -> None:
    site.write(TELL)
    done = site.run(site.script, "--flag", "two words", MINE="a value").finish()
    assert (done.code, done.err) == (0, "")
    ranks = [told(done.lines_of(rank)[0]) for rank in range(4)]
    for rank, seen in enumerate(ranks):
        node, local = divmod(rank, 2)
        place = [str(number) for number in (rank, 4, local, 2, node, node)]
        assert seen["place"] == [*place, site.names[0]]
        assert seen["mpi"] == [rank, 4, local, 2]
        assert seen["host"] == site.names[node]
        assert (seen["mine"], seen["hidden"]) == ("a value", [])
        assert (seen["folder"], seen["argv"]) == (str(site.folder), ["--flag", "two words"])
    assert len({(seen["port"], seen["run"]) for seen in ranks}) == 1


def test_each_host_divides_its_own_cores(site: Any) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core cannot be divided")
    site.write(TELL)
    done = site.run().finish()
    ranks = [told(done.lines_of(rank)[0]) for rank in range(4)]
    assert [seen["cores"] for seen in ranks[:2]] == [seen["cores"] for seen in ranks[2:]]
    assert sorted(ranks[0]["cores"] + ranks[1]["cores"]) == cores
    done = site.run("--no-pin").finish()
    assert told(done.lines_of(3)[0])["cores"] == cores


def test_three_hosts_with_uneven_shares(site: Any) -> None:
    site.write(TELL)
    done = site.run("-n", 4, counts=(1, 2, 3)).finish()
    assert (done.code, done.err) == (0, "")
    ranks = [told(done.lines_of(rank)[0]) for rank in range(4)]
    assert [seen["place"][2:5] for seen in ranks] == [
        ["0", "1", "0"],
        ["0", "2", "1"],
        ["1", "2", "1"],
        ["0", "1", "2"],
    ]
    assert [seen["host"] for seen in ranks] == [site.names[node] for node in (0, 1, 1, 2)]


def test_a_hostfile(site: Any) -> None:
    site.write("import os; print(os.environ['NODE_RANK'])")
    file = site.folder / "hosts"
    file.write_text(f"# two hosts\n{site.names[0]} slots=1\n\n{site.names[1]}:2  # more here\n")
    done = site.run("--hostfile", file).finish()
    assert (done.code, done.err) == (0, "")
    assert [done.lines_of(rank) for rank in range(3)] == [["0"], ["1"], ["1"]]


@pytest.mark.parametrize("counts", [(2, 2), (0, 2)], ids=["rank 0 here", "rank 0 elsewhere"])
@pytest.mark.parametrize("size", [0, 10, 300_000])
def test_rank_0_reads_the_input(counts: tuple[int, int], size: int, site: Any) -> None:
    site.write("import sys; text = sys.stdin.read(); print(len(text), text[-5:])")
    given = "x" * size + ("last\n" if size else "")
    done = site.run(counts=counts, stdin=given).finish()
    assert (done.code, done.err) == (0, "")
    assert done.lines_of(0) == ([f"{len(given)} last", ""] if size else ["0 "])
    assert done.lines_of(1) == ["0 "]


def test_input_that_nobody_reads_stops_nothing(site: Any) -> None:
    site.write("print('done')")
    done = site.run(counts=(0, 2), stdin="x" * 1_000_000).finish()
    assert (done.code, done.err) == (0, "")
    assert done.lines_of(0) == ["done"]


def test_output_is_whole(site: Any) -> None:
    site.write("""
        import os, sys
        for i in range(3000):
            os.write(1, f"{i:04d} begins, ".encode())
            os.write(1, b"x" * 100 + b"\\n")
        sys.stderr.write("an error\\n")
        sys.stdout.write("no newline at the end")
    """)
    done = site.run("--log-dir", "logs", "--show-ranks", "0,3").finish()
    expected = [f"{i:04d} begins, " + "x" * 100 for i in range(3000)] + ["no newline at the end"]
    assert done.code == 0
    assert done.lines_of(0) == done.lines_of(3) == expected
    assert sorted(done.err.splitlines()) == ["[r0] an error", "[r3] an error"]
    assert done.lines_of(1) == done.lines_of(2) == []
    for rank in range(4):
        assert (site.folder / "logs" / f"{rank}.out").read_text().splitlines() == expected
        assert (site.folder / "logs" / f"{rank}.err").read_text() == "an error\n"


def test_a_dry_run_says_what_and_why(site: Any) -> None:
    site.write("print('never')")
    done = site.run("-n", 3, "--dry-run").finish()
    hosts = site.list_of(2, 2)
    lines = done.out.splitlines()
    assert lines[:2] == [
        f"# hosts {hosts} (from --hosts); 3 ranks on {site.list_of(2, 1)}",
        "# ranks are started by MPI's launcher, through ssh or what --launch-agent names",
    ]
    assert site.list_of(2, 1) in lines[-1]
    assert str(site.hosts.agent) in lines[-1]
    assert "never" not in done.out


def test_a_host_that_is_not_there(site: Any) -> None:
    site.write("print('never')")
    words = ["-m", "shardwise", "run", "--timeout", 20, "--hosts", f"{site.names[0]}:1,swtnowhere:1"]
    done = site.start([sys.executable, *words, "--launch-agent", site.hosts.agent, site.script]).finish()
    assert done.code not in (0, 124)
    assert "did not start" in done.err
    assert "swtnowhere" in done.err


def test_the_network_can_be_named(site: Any) -> None:
    site.write("print('done')")
    for name in ("eth0", "10.77.0.0/24"):
        done = site.run("--iface", name).finish()
        assert (done.code, done.err) == (0, ""), name
        assert done.out.count("done") == 4
    done = site.run("--iface", "eth7").finish()
    assert done.code == 2
    assert done.err == (
        f"shardwise run: host {site.names[0]} has no network interface eth7 (SHARDWISE_IFACE) that other "
        "hosts can reach; it has: eth0 10.77.0.1/24. Set SHARDWISE_IFACE to the name, the address or the "
        "network (10.0.0.0/8) of the one to use.\n"
    )
