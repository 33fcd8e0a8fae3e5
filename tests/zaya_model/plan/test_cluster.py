"""Seconds of a step on a cluster, held against ZAYA1's public figures and against what must hold anywhere."""

from dataclasses import replace

import pytest

from zaya_model.plan import Cluster, estimate_step, plan
from zaya_model.presets import load_preset


def test_a_step_of_zaya1_takes_about_what_its_makers_said() -> None:
    # 4,096 sequences of 4,096 tokens, about 2.5 s on 1,024 MI300X (arXiv 2511.17127, appendix on storage).
    config = load_preset("zaya1-base", {"train.global_batch_size": 4096})
    assert config.phases[0].tokens_per_step == pytest.approx(16.8e6, rel=0.01)
    assert estimate_step(config, config.phases[0], Cluster()).total == pytest.approx(2.5, rel=0.1)


def test_parts_add_up_to_the_whole() -> None:
    found = plan(load_preset("zaya1-base"))
    for phase in found["phases"]:
        parts = dict(phase["seconds_per_step"])
        assert parts.pop("total") == pytest.approx(sum(parts.values()))
        assert phase["seconds"] == pytest.approx(phase["steps"] * sum(parts.values()))
    assert found["seconds"] == pytest.approx(sum(phase["seconds"] for phase in found["phases"]))
    assert found["tokens"] == sum(phase["tokens"] for phase in found["phases"])
    assert found["energy_joules"] == pytest.approx(found["seconds"] * 1024 * 750)
    assert found["fits"]


def test_twice_the_nodes_halve_the_computing_and_nothing_else() -> None:
    config = load_preset("zaya1-base")
    few, many = (estimate_step(config, config.phases[0], Cluster(nodes=nodes)) for nodes in (64, 128))
    assert few.compute == pytest.approx(2 * many.compute)
    assert few.gradients == pytest.approx(many.gradients, rel=0.02)


def test_one_gpu_sends_nothing_and_one_node_nothing_beyond_its_links() -> None:
    assert Cluster(nodes=1, gpus_per_node=1).all_reduce_seconds(1e9) == 0
    alone = Cluster(nodes=1)
    assert alone.all_reduce_seconds(1e9) == replace(alone, nic_bytes_per_second=1.0).all_reduce_seconds(1e9) > 0


def test_each_gpu_sends_its_part_along_its_own_rail() -> None:
    wide, narrow = (Cluster(nodes=2, gpus_per_node=gpus, link_bytes_per_second=1e30) for gpus in (8, 1))
    assert narrow.all_reduce_seconds(8e9) == pytest.approx(8 * wide.all_reduce_seconds(8e9))
