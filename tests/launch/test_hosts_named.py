"""Hosts as users and batch systems name them, and how many ranks each gets."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.backend.errors import LaunchError
from shardwise.launch.allocation import find_allocation
from shardwise.launch.host import Host, host_list, is_here, parse_hosts, read_hostfile
from shardwise.launch.nodelist import expand_counts, expand_nodelist
from shardwise.launch.placement import place


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("n[01-03,7],m2", "n01 n02 n03 n7 m2"),
        ("n[1-2]-ib,m", "n1-ib n2-ib m"),
        ("r[1-2]n[08-10]", "r1n08 r1n09 r1n10 r2n08 r2n09 r2n10"),
        ("n[9-11]", "n9 n10 n11"),
        (" a , b ", "a b"),
        ("n[5]", "n5"),
    ],
)
def test_lists_of_nodes(text: str, names: str) -> None:
    assert expand_nodelist(text) == names.split()


@pytest.mark.parametrize("text", ["n[1-2", "n1]", "n[]", "n[b-c]", "n[3-1]", "n[1-99999999999]", "n[[1]]"])
def test_lists_of_nodes_that_make_no_sense(text: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(text)):
        expand_nodelist(text)


@pytest.mark.parametrize(("text", "counts"), [("4", [4]), ("2(x3),1", [2, 2, 2, 1]), ("1,2(x1)", [1, 2])])
def test_numbers_for_nodes(text: str, counts: list[int]) -> None:
    assert expand_counts(text) == counts


@pytest.mark.parametrize("text", ["", "2(x", "a", "2(x3)1", "-1", "1(x99999999999)"])
def test_numbers_that_make_no_sense(text: str) -> None:
    with pytest.raises(LaunchError) as caught:
        expand_counts(text)
    assert str(caught.value) == f"cannot read {text!r} as numbers for nodes; wanted something like 2(x3),1"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a:2,b:2", [("a", 2), ("b", 2)]),
        ("a,b", [("a", None), ("b", None)]),
        ("a,a,b", [("a", 2), ("b", 1)]),
        ("a:2,b", [("a", 2), ("b", 1)]),
        ("n[1-3]:4", [("n1", 4), ("n2", 4), ("n3", 4)]),
        ("10.0.0.1:2", [("10.0.0.1", 2)]),
        ("[fe80::1]:2,[::1]", [("fe80::1", 2), ("::1", 1)]),
    ],
)
def test_hosts_on_the_command_line(text: str, hosts: list[tuple[str, int | None]]) -> None:
    assert [(host.name, host.slots) for host in parse_hosts(text)] == hosts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--hosts names no host; wanted something like --hosts a:2,b:2"),
        (",", "--hosts names no host; wanted something like --hosts a:2,b:2"),
        ("a:x", "--hosts a:x: cannot read 'a:x'; wanted HOST or HOST:RANKS, as in a:2,b:2"),
        ("a:2:3", "--hosts a:2:3: cannot read 'a:2:3'; wanted HOST or HOST:RANKS, as in a:2,b:2"),
        ("a:0", "--hosts a:0: 'a:0' has no room for a rank; leave it out"),
    ],
)
def test_hosts_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        parse_hosts(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    [
        "a slots=2\nb slots=1 max_slots=4\n",
        "# MPICH's way\na:2   # two\n\nb:1 binding=user:0\n",
        "a\na\nb\n",
        "a 2 all.q@a UNDEFINED\nb 1 all.q@b 0,0:0,1\n",
        "a cpu=2\r\nb cpu=1\r\n",
        "  a:2\n\tb:1",
    ],
    ids=["Open MPI", "MPICH", "PBS", "Grid Engine", "LAM, Windows", "no last line"],
)
def test_dialects_of_hostfiles(text: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    assert host_list(read_hostfile(path, "--hostfile")) == "a:2,b:1"


def test_hostfiles_may_have_short_forms_and_addresses(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("n[01-02] slots=2\n[fe80::1]:3\nme@b:1\n")
    assert host_list(read_hostfile(path, "--hostfile")) == "n01:2,n02:2,fe80::1:3,me@b:1"


def test_a_hostfile_without_numbers_leaves_them_open(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a\nb\n")
    assert read_hostfile(path, "--hostfile") == (Host("a"), Host("b"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--hostfile {path} names no host"),
        ("# a\n", "--hostfile {path} names no host"),
        ("a\nb two\n", "--hostfile {path}, line 2: cannot read 'two' after the host; wanted `host`, "
         "`host slots=4` or `host:4`"),
        ("slots=4\n", "--hostfile {path}, line 1: 'slots=4' is no host; wanted `host`, "
         "`host slots=4` or `host:4`"),
        ("a slots=many\n", "--hostfile {path}, line 1: 'slots=many' has no number"),
        ("a slot=2\n", "--hostfile {path}, line 1: cannot read 'slot=2' after the host; wanted `host`, "
         "`host slots=4` or `host:4`"),
        ("a\nb slots=0\n", "--hostfile {path}, line 2: 'b slots=0' has no room for a rank; leave it out"),
        ("a:2 slots=3\n", "--hostfile {path}, line 1: both 2 and 3 ranks for 'a:2'"),
        ("-oProxyCommand=x\n", "--hostfile {path}, line 1: '-oProxyCommand=x' is no host; wanted `host`, "
         "`host slots=4` or `host:4`"),
        ("a;x\n", "--hostfile {path}, line 1: 'a;x' is no host; wanted `host`, `host slots=4` or `host:4`"),
    ],
)  # fmt: skip
def test_hostfiles_that_cannot_be_read(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(LaunchError) as caught:
        read_hostfile(path, "--hostfile")
    assert str(caught.value) == message.format(path=path)


def test_a_hostfile_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"^--hostfile .*absent cannot be read: .*No such file"):
        read_hostfile(tmp_path / "absent", "--hostfile")


def test_this_host_is_known_without_a_name_server() -> None:
    for name in (
        "localhost",
        "127.0.0.1",
        "::1",
        socket.gethostname(),
        f"{socket.gethostname()}.example.org",
    ):
        assert is_here(name) or name == "::1", name  # a machine may have no IPv6
    for name in ("192.0.2.7", "2001:db8::7", "another-host.example.org"):
        assert not is_here(name), name


SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2],m1", "SLURM_JOB_CPUS_PER_NODE": "16(x2),8"}


@pytest.mark.parametrize(
    ("environ", "manager", "hosts"),
    [
        (SLURM | {"SLURM_NTASKS": "5", "SLURM_TASKS_PER_NODE": "2(x2),1"}, "slurm", "n1:2,n2:2,m1:1"),
        # Nobody said how many tasks: Slurm counts cores, and so would start one rank on each of them.
        (SLURM | {"SLURM_TASKS_PER_NODE": "16(x2),8"}, "slurm", "n1:1,n2:1,m1:1"),
        ({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "a 2 b 1 a 1"}, "lsf", "a:3,b:1"),
        ({"FLUX_URI": "local:///x"}, "flux", ""),
    ],
)
def test_allocations(environ: dict[str, str], manager: str, hosts: str) -> None:
    found = find_allocation(environ)
    assert found is not None
    assert (found.manager, host_list(found.hosts)) == (manager, hosts)


@pytest.mark.parametrize(
    ("variable", "more", "manager"),
    [
        ("PBS_NODEFILE", {"PBS_JOBID": "7"}, "pbs"),
        ("PE_HOSTFILE", {}, "sge"),
        ("LSB_DJOB_HOSTFILE", {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "c 9"}, "lsf"),
        ("OMPI_MCA_orte_default_hostfile", {}, "hostfile"),
        ("HYDRA_HOST_FILE", {}, "hostfile"),
    ],
)
def test_allocations_in_files(variable: str, more: dict[str, str], manager: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a\na\nb\n")
    found = find_allocation({variable: str(path)} | more)
    assert found is not None
    assert (found.manager, host_list(found.hosts), found.source) == (manager, "a:2,b:1", variable)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"SLURM_JOB_ID": "7"},
        {"SLURM_NTASKS": "8", "SLURM_PROCID": "0"},
        {"LSB_JOBID": "7"},
        {"PBS_JOBID": "7"},
    ],
)
def test_no_allocation(environ: dict[str, str]) -> None:
    assert find_allocation(environ) is None


def test_an_allocation_that_contradicts_itself() -> None:
    with pytest.raises(LaunchError) as caught:
        find_allocation(SLURM | {"SLURM_NTASKS": "2", "SLURM_TASKS_PER_NODE": "2"})
    assert str(caught.value) == "SLURM_TASKS_PER_NODE=2 speaks of 1 nodes, but the job has 3: n1,n2,m1"
    with pytest.raises(
        LaunchError, match="cannot read LSB_MCPU_HOSTS='a b'; wanted hosts, each with a number"
    ):
        find_allocation({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "a b"})


@pytest.mark.parametrize(
    ("hosts", "n", "placed"),
    [
        ("a:2,b:2", None, "a:2,b:2"),
        ("a:2,b:2", 3, "a:2,b:1"),
        ("a:2,b:2", 1, "a:1"),
        ("a,b", None, "a:1,b:1"),
        ("a,b,c", 7, "a:3,b:2,c:2"),
        ("a,b,c", 2, "a:1,b:1"),
    ],
)
def test_placing(hosts: str, n: int | None, placed: str) -> None:
    assert host_list(place(parse_hosts(hosts), n, "--hosts")) == placed


def test_more_ranks_than_hosts_are_meant_for() -> None:
    hosts = parse_hosts("a:2,b:1")
    with pytest.raises(LaunchError) as caught:
        place(hosts, 4, "--hosts")
    assert str(caught.value) == (
        "-n 4 is more than the 3 ranks that there is room for on a:2,b:1 (from --hosts): use -n 3, name "
        "more, or --oversubscribe if you mean it"
    )
    assert host_list(place(hosts, 6, "--hosts", oversubscribe=True)) == "a:4,b:2"
    # A batch system's tasks are what was asked for, its cores are what there is.
    slurm = find_allocation(SLURM | {"SLURM_NTASKS": "3", "SLURM_TASKS_PER_NODE": "1(x3)"})
    assert slurm is not None
    assert host_list(place(slurm.hosts, 40, "slurm")) == "n1:16,n2:16,m1:8"
    assert host_list(place(slurm.hosts, 10, "slurm")) == "n1:4,n2:4,m1:2"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
def test_ranks_are_placed_once_and_in_order(slots: list[int], data: st.DataObject) -> None:
    hosts = [Host(f"h{number}", count) for number, count in enumerate(slots)]
    n = data.draw(st.integers(1, sum(slots)))
    placed = place(hosts, n, "--hosts")
    assert sum(host.slots or 0 for host in placed) == n
    limits = {host.name: host.slots or 0 for host in hosts}
    assert all(0 < (host.slots or 0) <= limits[host.name] for host in placed)
    assert [host.name for host in placed] == sorted(host.name for host in placed)
