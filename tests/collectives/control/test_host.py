"""Which host this is, and which of its addresses others are told."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from shardwise.backend.errors import LaunchError
from shardwise.collectives.control import host
from shardwise.collectives.control.host import (
    Interface,
    choose_meeting_point,
    host_id,
    interfaces,
    own_address,
)

ETH = Interface("eth0", "10.0.0.1", 24)
IB = Interface("ib0", "192.168.7.1", 16)
SIX = Interface("eth0", "fd00::1", 64)


def test_a_host_is_more_than_its_name() -> None:
    name, kernel, network = host_id().rsplit("/", 2)
    assert name == socket.gethostname()
    assert kernel
    if sys.platform == "linux":
        assert network == str(os.stat("/proc/self/ns/net").st_ino)
    assert host_id() == host_id()


def test_the_choice_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "all_interfaces", lambda: [ETH, IB, SIX])
    monkeypatch.setattr(host, "_source_towards", lambda address: "192.168.7.1")
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    assert interfaces(None) == [IB, ETH, SIX]  # what leads to the outside comes first
    assert interfaces("eth0") == [ETH, SIX]
    assert interfaces("192.168.7.1") == [IB]
    assert interfaces("192.168.0.0/16") == [IB]
    assert interfaces("fd00::/8") == [SIX]
    with pytest.raises(LaunchError) as caught:
        interfaces("eth9")
    assert str(caught.value) == (
        "host node7 has no network interface eth9 (SHARDWISE_IFACE) that other hosts can reach; it has: "
        "eth0 10.0.0.1/24, ib0 192.168.7.1/16, eth0 fd00::1/64. Set SHARDWISE_IFACE to the name, "
        "the address or the network (10.0.0.0/8) of the one to use."
    )


def test_no_loopback_is_listed() -> None:
    found = host.all_interfaces()
    assert not any(each.address.startswith("127.") or each.address == "::1" for each in found)


def test_where_hosts_meet() -> None:
    other = [Interface("eth1", "192.168.9.9", 16)]
    assert choose_meeting_point([[ETH, IB], other, other]) == "192.168.7.1"
    assert choose_meeting_point([[ETH, IB], [Interface("e", "172.16.0.1", 24)]]) == "10.0.0.1"
    assert choose_meeting_point([[ETH, IB], other, [Interface("e", "10.0.0.9", 24)]]) == "10.0.0.1"


def test_which_address_others_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [Interface("eth0", "10.0.0.2", 24), Interface("ib0", "192.168.7.2", 16)]
    monkeypatch.setattr(host, "_source_towards", lambda address: "192.168.7.2")
    assert own_address(mine, "192.168.7.1") == "192.168.7.2"
    monkeypatch.setattr(host, "_source_towards", lambda address: "")
    assert own_address(mine, "192.168.7.1") == "192.168.7.2"
    assert own_address(mine, "172.16.0.1") == "10.0.0.2"
    assert own_address([ETH, IB], "192.168.7.1") == "192.168.7.1"
