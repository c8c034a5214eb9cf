"""DistributedDataParallel does the step of the whole batch, in worlds of 1 to 4 ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.backend.errors import ArgumentError, DeviceError
from shardwise.collectives import explain, get_group, run_threads
from shardwise.nn import functional as F
from shardwise.parallel import DistributedDataParallel, local_rows

WORLDS = [1, 2, 3, 4]
ROWS = 12
TIGHT = {"rtol": 1e-12, "atol": 1e-14}


class Net(nn.Module):
    """Several kinds of parameter: tied, frozen, a table, and one of another dtype."""

    def __init__(self, wide: Any = np.float64, other: Any = np.float64) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6, dtype=wide)
        self.up, self.down = nn.Linear(6, 9, dtype=wide), nn.Linear(9, 6, dtype=wide)
        self.norm = nn.LayerNorm(6, dtype=wide)
        self.shift = nn.Parameter(sw.randn(6, dtype=other))
        self.fixed = nn.Parameter(sw.randn(6, dtype=wide), requires_grad=False)
        self.head = nn.Linear(6, 11, dtype=wide)
        self.head.weight = self.table.weight

    def forward(self, index: sw.Tensor) -> sw.Tensor:
        x = self.table(index) * self.fixed
        x = self.norm(x + self.down(F.gelu(self.up(x))) + self.shift.astype(x.dtype))
        return self.head(x)


def build(seed: int = 0, **kwargs: Any) -> Net:
    sw.manual_seed(seed)
    return Net(**kwargs)


def data(step: int = 0) -> tuple[sw.Tensor, sw.Tensor]:
    rng = np.random.default_rng(step)
    return sw.tensor(rng.integers(0, 11, (ROWS, 5))), sw.tensor(rng.integers(0, 11, (ROWS, 5)))


def loss_of(module: nn.Module, rows: slice, step: int = 0) -> sw.Tensor:
    index, target = data(step)
    return F.cross_entropy(module(index[rows]).permute(0, 2, 1), target[rows])


def gradients(module: nn.Module) -> dict[str, np.ndarray | None]:
    return {n: None if p.grad is None else p.grad.numpy().copy() for n, p in module.named_parameters()}


def steps(module: nn.Module, rows: slice, n: int = 3) -> list[np.ndarray]:
    opt = optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=1e-2)
    for step in range(n):
        opt.zero_grad()
        loss_of(module, rows, step).backward()
        nn.clip_grad_norm_(module.parameters(), 0.5)
        opt.step()
    return [p.detach().numpy() for p in module.parameters()]


def check_against_one_rank(options: dict[str, Any]) -> None:
    expected = steps(build(), slice(None))
    ddp = DistributedDataParallel(build(), **options)
    for got, want in zip(steps(ddp, local_rows(ROWS)), expected, strict=True):
        np.testing.assert_allclose(got, want, **TIGHT)


OPTIONS = [
    {},
    {"gradient_as_bucket_view": False},
    {"bucket_cap_mb": 1e-6},  # every parameter in a bucket of its own
    {"bucket_cap_mb": 1e-3, "find_unused_parameters": True},
    {"gradient_as_bucket_view": False, "find_unused_parameters": True, "broadcast_buffers": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("world", WORLDS)
def test_the_step_is_that_of_the_whole_batch(world: int, options: dict[str, Any]) -> None:
    run_threads(lambda _: check_against_one_rank(options), world)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_step_is_that_of_the_whole_batch_under_mpi(options: dict[str, Any]) -> None:
    check_against_one_rank(options)


@pytest.mark.parametrize("view", [True, False])
def test_two_dtypes_travel_apart(view: bool) -> None:
    def one(_: int) -> dict[str, np.ndarray | None]:
        ddp = DistributedDataParallel(build(other=np.float32), gradient_as_bucket_view=view)
        loss_of(ddp, local_rows(ROWS)).backward()
        return gradients(ddp.module)

    alone = build(other=np.float32)
    loss_of(alone, slice(None)).backward()
    for got in run_threads(one, 3):
        for name, want in gradients(alone).items():
            if want is None:
                assert got[name] is None
                continue
            tight = TIGHT if want.dtype == np.float64 else {"rtol": 1e-5, "atol": 1e-7}
            np.testing.assert_allclose(got[name], want, **tight)
            assert got[name].dtype == want.dtype  # type: ignore[union-attr]


def test_gradients_are_views_of_a_bucket_or_arrays_of_their_own() -> None:
    def owner(array: np.ndarray) -> int:
        while isinstance(array.base, np.ndarray):
            array = array.base
        return id(array)

    def one(_: int) -> list[tuple[int, int]]:
        counts = []
        for view in (True, False):
            ddp = DistributedDataParallel(build(), gradient_as_bucket_view=view)
            for _ in range(2):  # also after zero_grad
                ddp.zero_grad()
                loss_of(ddp, local_rows(ROWS)).backward()
            grads = [p.grad.data for p in ddp.parameters() if p.grad is not None]
            counts.append((len(grads), len({owner(g) for g in grads})))
        return counts

    assert run_threads(one, 2) == [[(9, 1), (9, 9)]] * 2


@pytest.mark.parametrize("view", [True, False])
@pytest.mark.parametrize("world", [2, 3])
def test_no_sync_accumulates_to_the_big_batch(world: int, view: bool) -> None:
    """Two half steps, of which only the second is averaged, are one of the whole batch."""

    def one(_: int) -> tuple[dict[str, np.ndarray | None], int]:
        ddp = DistributedDataParallel(build(), gradient_as_bucket_view=view)
        mine = local_rows(ROWS)
        half = (mine.stop - mine.start) // 2
        with explain() as moved, ddp.no_sync():
            (loss_of(ddp, slice(mine.start, mine.start + half)) / 2.0).backward()
        (loss_of(ddp, slice(mine.start + half, mine.stop)) / 2.0).backward()
        return gradients(ddp.module), len(moved.records)

    alone = build()
    loss_of(alone, slice(None)).backward()
    for got, sent in run_threads(one, world):
        assert sent == 0
        for name, want in gradients(alone).items():
            if want is not None:
                np.testing.assert_allclose(got[name], want, **TIGHT)


@pytest.mark.parametrize("view", [True, False])
def test_backwards_without_zero_grad_add_up(view: bool) -> None:
    def one(_: int) -> dict[str, np.ndarray | None]:
        ddp = DistributedDataParallel(build(), gradient_as_bucket_view=view)
        for step in range(3):
            loss_of(ddp, local_rows(ROWS), step).backward()
        return gradients(ddp.module)

    alone = build()
    for step in range(3):
        loss_of(alone, slice(None), step).backward()
    for got in run_threads(one, 3):
        for name, want in gradients(alone).items():
            if want is not None:
                np.testing.assert_allclose(got[name], want, **TIGHT)


@pytest.mark.parametrize("view", [True, False])
def test_a_gradient_that_the_user_set_is_added_to(view: bool) -> None:
    def one(rank: int) -> list[float]:
        ddp = DistributedDataParallel(nn.Linear(1, 1, dtype=np.float64), gradient_as_bucket_view=view)
        ddp.module.weight.grad = sw.tensor(np.array([[10.0]]))
        ddp(sw.tensor(np.array([[rank + 1.0]]))).sum().backward()
        return [ddp.module.weight.grad.item(), ddp.module.bias.grad.item()]  # type: ignore[union-attr]

    assert run_threads(one, 2) == [[11.5, 1.0]] * 2


def test_hooks_on_parameters_run_before_averaging() -> None:
    def one(rank: int) -> float:
        ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False, dtype=np.float64))
        ddp.module.weight.register_hook(lambda g: g * (rank + 1.0))
        ddp(sw.tensor(np.array([[1.0]]))).sum().backward()
        return ddp.module.weight.grad.item()  # type: ignore[union-attr]

    assert run_threads(one, 2) == [1.5, 1.5]


@pytest.mark.parametrize("world", [2, 4])
def test_sub_groups_average_among_themselves(world: int) -> None:
    def one(rank: int) -> tuple[float, float]:
        group = get_group([r for r in range(world) if r % 2 == rank % 2])
        sw.manual_seed(rank)
        ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False, dtype=np.float64), group)
        ddp(sw.tensor(np.array([[float(rank)]]))).sum().backward()
        return ddp.module.weight.item(), ddp.module.weight.grad.item()  # type: ignore[union-attr]

    results = run_threads(one, world)
    for rank, (weight, gradient) in enumerate(results):
        members = [r for r in range(world) if r % 2 == rank % 2]
        assert weight == results[members[0]][0]
        assert gradient == np.mean(members)
    assert results[0][0] != results[1][0]


@pytest.mark.parametrize("world", [2, 3])
def test_construction_takes_the_state_of_the_first_rank(world: int) -> None:
    def one(rank: int) -> list[Any]:
        module = build(seed=rank)
        module.register_buffer("mean", sw.full((3,), float(rank)))
        module.register_buffer("count", sw.tensor([rank]))
        before = [t.detach().numpy().copy() for t in (*module.parameters(), *module.buffers())]
        ddp = DistributedDataParallel(module)
        after = [t.detach().numpy().copy() for t in (*module.parameters(), *module.buffers())]
        kept = DistributedDataParallel(build(seed=rank), init_sync=False)
        assert ddp.module is module
        return [before, after, [p.detach().numpy() for p in kept.parameters()]]

    results = run_threads(one, world)
    for before, after, kept in results:
        for got, first in zip(after, results[0][0], strict=True):
            np.testing.assert_array_equal(got, first)
        for got, own in zip(kept, before, strict=False):  # init_sync=False leaves all as it was
            np.testing.assert_array_equal(got, own)


class Counting(nn.Module):
    def __init__(self, buffer: float) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("mean", sw.full((2,), buffer))

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        return self.linear(x) + self.mean


def test_buffers_are_broadcast_before_a_training_forward() -> None:
    def one(rank: int) -> list[float]:
        seen = []
        x = sw.ones(1, 2)
        for options in ({}, {"broadcast_buffers": False}):
            ddp = DistributedDataParallel(Counting(0.0), **options)
            for prepare in (ddp.train, ddp.eval):
                prepare()
                ddp.module.mean.fill_(float(rank + 1))
                ddp(x)
                seen.append(ddp.module.mean.tolist()[0])
            ddp.train()
            with ddp.no_sync():
                ddp.module.mean.fill_(float(rank + 1))
                ddp(x)
            seen.append(ddp.module.mean.tolist()[0])
        return seen

    assert run_threads(one, 2) == [[1.0] * 6, [1.0, 2.0, 2.0, 2.0, 2.0, 2.0]]


def test_buckets_are_launched_in_one_order_whatever_order_gradients_come_in() -> None:
    """The ranks use the layers in opposite orders, so that gradients come in opposite orders."""
    layers = 12

    class Chain(nn.Module):
        def __init__(self, backwards: bool) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3, dtype=np.float64) for _ in range(layers))
            self.backwards = backwards

        def forward(self, x: sw.Tensor) -> sw.Tensor:
            order = list(self.layers)
            for layer in reversed(order) if self.backwards else order:
                x = layer(x).tanh()
            return x

    def one(rank: int) -> tuple[list[tuple[int, ...]], list[np.ndarray]]:
        sw.manual_seed(0)
        ddp = DistributedDataParallel(Chain(bool(rank % 2)), bucket_cap_mb=1e-6)
        x = sw.tensor(np.random.default_rng(rank).standard_normal((2, 3)))
        with explain() as moved:
            ddp(x).sum().backward()
        return [r.shape for r in moved.records], [p.grad.numpy() for p in ddp.parameters()]  # type: ignore[union-attr]

    results = run_threads(one, 4)
    assert [r[0] for r in results] == [[(8,), (16,)] * layers] * 4  # bias, weight; in multiples of 64 bytes
    own = []
    for rank in range(4):
        sw.manual_seed(0)
        net = Chain(bool(rank % 2))
        net(sw.tensor(np.random.default_rng(rank).standard_normal((2, 3)))).sum().backward()
        own.append([p.grad.numpy() for p in net.parameters()])  # type: ignore[union-attr]
    for i in range(2 * layers):
        for _, grads in results:
            np.testing.assert_allclose(grads[i], np.mean([o[i] for o in own], axis=0), **TIGHT)


def test_nothing_is_sent_in_a_world_of_one() -> None:
    ddp = DistributedDataParallel(build())
    with explain() as moved:
        loss_of(ddp, slice(None)).backward()
    assert moved.records == []


def test_recompute_inside_and_around() -> None:
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = build()

        def forward(self, index: sw.Tensor) -> sw.Tensor:
            return sw.recompute(self.net, index)

    def one(_: int) -> list[dict[str, np.ndarray | None]]:
        results = []
        for around in (False, True):
            ddp = DistributedDataParallel(build() if around else Again())
            index, target = data()
            mine = local_rows(ROWS)
            logits = sw.recompute(ddp, index[mine]) if around else ddp(index[mine])
            F.cross_entropy(logits.permute(0, 2, 1), target[mine]).backward()
            results.append(gradients(ddp.module if around else ddp.module.net))
        return results

    alone = build()
    loss_of(alone, slice(None)).backward()
    for results in run_threads(one, 2):
        for got in results:
            for name, want in gradients(alone).items():
                if want is not None:
                    np.testing.assert_allclose(got[name], want, **TIGHT)


def test_state_dict_has_the_prefix_and_loads_both_ways() -> None:
    module = build()
    ddp = DistributedDataParallel(module)
    assert list(ddp.state_dict()) == [f"module.{name}" for name in module.state_dict()]
    other = DistributedDataParallel(build(seed=1))
    other.load_state_dict(ddp.state_dict())
    other.module.load_state_dict(module.state_dict())
    np.testing.assert_array_equal(other.module.up.weight.data, module.up.weight.data)


class Drops(nn.Module):
    def __init__(self, take: Callable[[Any], sw.Tensor]) -> None:
        super().__init__()
        self.take = take
        self.linear = nn.Linear(3, 3, dtype=np.float64)
        self.drop = nn.Dropout(0.5)

    def forward(self, batch: Any) -> sw.Tensor:
        return self.drop(self.linear(self.take(batch)) * 0.0 + 1.0)


@pytest.mark.parametrize(
    "wrap",
    [lambda x: x, lambda x: {"x": x}, lambda x: ("text", [x]), lambda x: x.numpy()],
    ids=["tensor", "dict", "nested", "array"],
)
def test_masks_are_those_of_the_global_batch(wrap: Callable[[sw.Tensor], Any]) -> None:
    def take(batch: Any) -> sw.Tensor:
        batch = batch["x"] if isinstance(batch, dict) else batch[1][0] if isinstance(batch, tuple) else batch
        return sw.as_tensor(batch)

    def one(_: int) -> np.ndarray:
        sw.manual_seed(4)
        ddp = DistributedDataParallel(Drops(take))
        x = sw.ones(6, 3, dtype=np.float64)
        return ddp(wrap(x[local_rows(6)])).detach().numpy()

    whole = run_threads(one, 1)[0]
    for world in (2, 3):
        np.testing.assert_array_equal(np.concatenate(run_threads(one, world)), whole)


def test_repr_shows_group_and_buckets() -> None:
    ddp = DistributedDataParallel(nn.Linear(2, 3))
    assert repr(ddp) == (
        "DistributedDataParallel(\n"
        "  ranks=[0], buckets_mib=[0.0]\n"
        "  (module): Linear(in_features=2, out_features=3, bias=True)\n"
        ")"
    )


@pytest.mark.parametrize(
    "options", [{"device_ids": None}, {"device_ids": []}, {"device_ids": ["cpu"]}], ids=str
)
def test_device_ids_that_say_where_the_parameters_are(options: dict[str, list[str] | None]) -> None:
    ddp = DistributedDataParallel(build(), **options, output_device="cpu")
    assert next(ddp.parameters()).device == "cpu"


def test_device_ids_that_name_another_device() -> None:
    with pytest.raises(DeviceError) as caught:
        DistributedDataParallel(nn.Linear(2, 1), device_ids=[0])
    assert str(caught.value) == (
        "DistributedDataParallel: device_ids names cuda:0, and the parameter weight is on cpu; move the "
        "module there with to('cuda:0'), or leave device_ids out"
    )
    with pytest.raises(DeviceError, match="output_device names cuda:1, and the parameter weight is on cpu"):
        DistributedDataParallel(nn.Linear(2, 1), output_device=1)
    with pytest.raises(ArgumentError) as several:
        DistributedDataParallel(nn.Linear(2, 1), device_ids=[0, 1])
    assert str(several.value) == (
        "DistributedDataParallel: a rank computes on one device, so device_ids must be a list of one, got "
        "[0, 1]; start a rank per device"
    )


def test_device_ids_in_the_place_of_the_group() -> None:
    with pytest.raises(
        ValueError, match=r"process_group must be a ProcessGroup, got \[0\]; give device_ids by name"
    ):
        DistributedDataParallel(nn.Linear(2, 2), [0])  # type: ignore[arg-type]
