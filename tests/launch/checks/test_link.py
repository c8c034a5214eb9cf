"""What the doctor says of links that it has measured."""

from __future__ import annotations

from shardwise.dtensor.redistribute import LinkCosts
from shardwise.launch.checks.link import judge_links

COSTS = LinkCosts(1e-5, 2e-6, 3e9, 4e-5, 5e-6, 6e8)


def test_one_host() -> None:
    found = judge_links(COSTS, "/cache/links.json", "", hosts=1, ranks=2)
    assert [(each.name, each.status, each.what) for each in found] == [
        ("links inside a host", "ok", "10.0 us to begin, 2.0 us for each rank, 3.0 GB/s"),
        (
            "costs of links",
            "ok",
            "/cache/links.json; plans use them after shardwise.dtensor.load_link_costs()",
        ),
    ]


def test_hosts_of_one_rank_and_a_folder_that_cannot_be_written() -> None:
    found = judge_links(COSTS, "", "No space left on device", hosts=2, ranks=2)
    assert [(each.name, each.status) for each in found] == [
        ("links between hosts", "ok"),
        ("costs of links", "fail"),
    ]
    assert found[0].what == "40.0 us to begin, 5.0 us for each rank, 600 MB/s"
    assert found[1].what == "not written: No space left on device"
    assert found[1].fix == "set XDG_CACHE_HOME to a folder that can be written"
