"""The sizes agree with figures that others published or measured."""

from __future__ import annotations

import pytest

from dpd.facts import Facts
from dpd.quantity import GIB, MIB
from dpd.sizing.capacity import gpu_subnet_use, largest_prefix
from dpd.sizing.cost import cost
from dpd.sizing.gpu_memory import gpu_memory
from dpd.sizing.kv_cache import PdBuffer, kv_bytes_per_token, pd_buffer, prompts_in_flight, transfer_seconds
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import Deployment, build_deployment
from dpd.spec.environment import Environment
from dpd.spec.model import Architecture

MODELS: dict[str, tuple[dict[str, object], int, float, tuple[float, float, float]]] = {
    # Shape; KV bytes per token and rank at TP8; page in MiB; thousands of tokens in 8, 16 and 32 GiB.
    "Llama-3.3-70B": ({"layers": 80, "kv_heads": 8, "head_dim": 128}, 40_960, 10, (209, 419, 838)),
    "Llama-3.1-405B": ({"layers": 126, "kv_heads": 8, "head_dim": 128}, 64_512, 15.75, (133, 266, 532)),
    "Qwen3-32B": ({"layers": 64, "kv_heads": 8, "head_dim": 128}, 32_768, 8, (262, 524, 1050)),
    "Qwen3-235B-A22B": ({"layers": 94, "kv_heads": 4, "head_dim": 128}, 48_128, 11.75, (178, 356, 713)),
    "gpt-oss-120b": ({"layers": 36, "kv_heads": 8, "head_dim": 64}, 9_216, 2.25, (932, 1900, 3700)),
    "Llama-4": ({"layers": 48, "kv_heads": 8, "head_dim": 128}, 24_576, 6, (349, 699, 1400)),
    "DeepSeek-V3": (
        {
            "layers": 61,
            "kv_heads": 128,
            "head_dim": 128,
            "attention": "mla",
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
        },
        70_272,
        17.2,
        (122, 244, 488),
    ),
}


def architecture(**shape: object) -> Architecture:
    return Architecture.model_validate(
        {"parameters": 70e9, "hidden_size": 8192, "attention_heads": 128} | shape
    )


def deployment_of(catalog: Catalog, facts: Facts, model: str, environment: str = "dev") -> Deployment:
    value, place = catalog.models[model].value, catalog.environments[environment].value
    assert value is not None
    assert place is not None
    return build_deployment(place, value, facts)


@pytest.mark.parametrize(("shape", "per_token", "page_mib", "thousands"), MODELS.values(), ids=MODELS.keys())
def test_kv_cache_of_known_models(
    shape: dict[str, object], per_token: int, page_mib: float, thousands: tuple[float, float, float]
) -> None:
    assert kv_bytes_per_token(architecture(**shape), 8, 2) == per_token
    for gib, expected in zip((8, 16, 32), thousands, strict=True):
        buffer = PdBuffer(gib * GIB, per_token, 256)
        assert buffer.page_bytes / MIB == pytest.approx(page_mib, rel=0.01)
        assert buffer.tokens / 1000 == pytest.approx(expected, rel=0.02 if expected >= 1000 else 0.01)
        assert buffer.tokens % 256 == 0


@pytest.mark.parametrize(
    ("ranks", "dtype_bytes", "per_token"), [(1, 2, 327_680), (4, 2, 81_920), (16, 2, 40_960), (8, 1, 20_480)]
)
def test_kv_cache_follows_ranks_and_type(ranks: int, dtype_bytes: int, per_token: int) -> None:
    shape = architecture(layers=80, kv_heads=8, head_dim=128)
    assert kv_bytes_per_token(shape, ranks, dtype_bytes) == per_token


def test_the_documented_log_line_of_6035_tokens(catalog: Catalog, facts: Facts) -> None:
    # AWS's DPD page: "Retrieved 6035 tokens ... 0.2344 gb".
    deployment = deployment_of(catalog, facts, "llama-3.3-70b")
    buffer = pd_buffer(deployment.model, deployment.role("decode"), facts)
    assert buffer.bytes_per_token == 40_960
    assert buffer.prompt_pages(6035) == 24
    assert buffer.prompt_bytes(6035) / GIB == pytest.approx(0.2344, rel=0.001)


def test_eight_gib_hold_34_or_35_prompts_of_6000_tokens() -> None:
    buffer = PdBuffer(8 * GIB, 40_960, 256)
    assert buffer.buffer_bytes / (6000 * 40_960) == pytest.approx(35, rel=0.01), "as AWS documents it"
    assert buffer.prompts(6000) == 34, "whole pages"
    assert [buffer.prompts(tokens) for tokens in (4096, 8192, 32_768)] == [51, 25, 6]


def test_a_buffer_smaller_than_a_page_holds_nothing() -> None:
    buffer = PdBuffer(MIB, 40_960, 256)
    assert (buffer.pages, buffer.tokens, buffer.prompts(1)) == (0, 0, 0)


def test_8000_tokens_take_6_6_ms_at_line_rate() -> None:
    assert transfer_seconds(8000, 40_960, 3200 / 8) == pytest.approx(6.6e-3, rel=0.01)


def test_prompts_in_flight_follow_little_s_law_with_a_margin() -> None:
    assert prompts_in_flight(4.2, 0.3, 0) == 2
    assert prompts_in_flight(4.2, 0.3, 2.33) == 4
    assert prompts_in_flight(100, 1, 2.33) == 124


def test_gpu_memory_of_a_70b_model_on_h100(catalog: Catalog, facts: Facts) -> None:
    deployment = deployment_of(catalog, facts, "llama-3.3-70b")
    role = deployment.role("decode")
    assert role.instance is not None
    memory = gpu_memory(deployment.model, role, role.instance, facts)
    # Figures of the aiconfigurator memory model: weights 16.4, activations 0.63 at 8,192 batched tokens.
    assert memory.weight_bytes / GIB == pytest.approx(16.4, rel=0.01)
    assert memory.activation_bytes / GIB == pytest.approx(0.63, rel=0.01)
    assert memory.engine_bytes == 60 * GIB
    assert memory.kv_room_bytes == memory.engine_bytes - memory.weight_bytes - memory.activation_bytes
    assert memory.kv_room_tokens == memory.kv_room_bytes // 40_960
    assert memory.free_bytes / GIB == pytest.approx(80 * 0.25 - 8 - 3.88, rel=0.01)
    assert memory.largest_utilization == 0.85


def test_without_a_pd_buffer_the_fraction_may_be_larger(catalog: Catalog, facts: Facts) -> None:
    deployment = deployment_of(catalog, facts, "gpt-oss-120b")
    role = deployment.role("decode")
    assert role.instance is not None
    memory = gpu_memory(deployment.model, role, role.instance, facts)
    assert memory.pd_buffer_bytes == 0
    assert memory.largest_utilization == 0.95
    # 116.8e9 parameters of 4.25 bits over 8 ranks.
    assert memory.weight_bytes / GIB == pytest.approx(116.8e9 * 4.25 / 8 / 8 / GIB, rel=0.001)


def test_addresses_of_the_gpu_subnet(catalog: Catalog, facts: Facts) -> None:
    environment = catalog.environments["dev"].value
    assert environment is not None
    use = gpu_subnet_use(environment, facts)
    assert use is not None
    system = facts.instances["ml.c5.4xlarge"].addresses_per_node
    assert use.needed == 2 * 81 + 2 * system, "81 addresses for each ml.p5.48xlarge"
    assert use.available == 2**16 - 5
    unknown = environment.model_copy(
        update={
            "hyperpod": environment.hyperpod.model_copy(
                update={
                    "groups": environment.hyperpod.groups.model_copy(
                        update={
                            "decode": environment.hyperpod.groups.decode.model_copy(
                                update={"instance_type": "x"}
                            )
                        }
                    )
                }
            )
        }
    )
    assert gpu_subnet_use(unknown, facts) is None


@pytest.mark.parametrize(
    ("addresses", "prefix"), [(1, 28), (16, 28), (17, 27), (256, 24), (257, 23), (65_536, 16), (65_537, None)]
)
def test_the_smallest_subnet_that_holds_the_addresses(addresses: int, prefix: int | None) -> None:
    assert largest_prefix(addresses) == prefix


def test_cost_adds_up_and_says_where_prices_come_from(catalog: Catalog, facts: Facts) -> None:
    environment = catalog.environments["prod"].value
    assert environment is not None
    total = cost(environment, facts)
    gpu = {line.name: line for line in total.lines if "p5.48xlarge" in line.what}
    price = facts.prices["ml.p5.48xlarge/us-east-1"]
    assert gpu["prefill nodes"].usd_per_hour == pytest.approx(3 * price.usd_per_hour)
    assert gpu["prefill nodes"].note == price.basis
    assert total.usd_per_hour == pytest.approx(sum(line.usd_per_hour or 0 for line in total.lines))
    assert total.usd_per_month == pytest.approx(total.usd_per_hour * facts.constant("hours_per_month"))
    assert total.complete


def test_a_type_without_a_price_leaves_the_total_open(catalog: Catalog, facts: Facts) -> None:
    environment = catalog.environments["dev"].value
    assert environment is not None
    data = environment.model_dump(mode="json", by_alias=True)
    data["hyperpod"]["groups"]["decode"]["instance_type"] = "ml.p5e.48xlarge"
    total = cost(Environment.model_validate(data), facts)
    assert not total.complete
    assert [line.note for line in total.lines if line.usd_per_hour is None] == ["no price known"]
