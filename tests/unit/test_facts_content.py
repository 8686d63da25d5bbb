"""The fact tables of the repository: complete, consistent with one another, and with cfn-lint's data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from dpd.facts import Fact, Facts, load_facts

FACTS_FOLDER = Path(__file__).resolve().parents[2] / "config" / "facts"

DPD_TYPES = {
    "ml.p5.48xlarge",
    "ml.p5e.48xlarge",
    "ml.p5en.48xlarge",
    "ml.p6-b200.48xlarge",
    "ml.p6-b300.48xlarge",
}

WITHOUT_PRICE = {"ml.p5e.48xlarge"}
"""DPD types for which no price was found; the row's absence is deliberate."""

WITHOUT_REGION = {"ml.p5e.48xlarge"}
"""DPD types in no regional enumeration of CloudFormation."""

FLAGS_WE_SET = {
    "block-size",
    "enable-chunked-prefill",
    "enable-prefix-caching",
    "enforce-eager",
    "gpu-memory-utilization",
    "host",
    "kv-cache-dtype",
    "kv-transfer-config",
    "max-model-len",
    "max-num-batched-tokens",
    "max-num-seqs",
    "model",
    "port",
    "served-model-name",
    "shutdown-timeout",
    "tensor-parallel-size",
}


@pytest.fixture(scope="module")
def facts() -> Facts:
    loaded, findings = load_facts(FACTS_FOLDER)
    assert findings == []
    assert loaded is not None
    return loaded


def release(version: str) -> str:
    """Return the first three numbers of a version, without what a development build adds."""
    return ".".join(version.split(".")[:3])


def all_rows(facts: Facts) -> Iterator[tuple[str, Fact]]:
    """Yield every row of every table with a name to report it by."""
    for table in fields(facts):
        rows: Mapping[str, Fact] = getattr(facts, table.name)
        for key, row in rows.items():
            yield f"{table.name}: {key}", row


def addon_key(version: str) -> tuple[int, ...]:
    """Turn ``v1.18.3-eksbuild.2`` into something that sorts."""
    return tuple(int(match.group()) for match in re.finditer(r"\d+", version))


def test_every_file_begins_with_a_comment_on_its_scope() -> None:
    tables = sorted(FACTS_FOLDER.glob("*.yaml"))
    assert tables
    for table in tables:
        lines = table.read_text(encoding="utf-8").splitlines()
        comment = [line for line in lines[:5] if line.startswith("#")]
        assert 2 <= len(comment) <= 4, table.name
        assert lines[0].startswith("# "), table.name


def test_an_unconfirmed_row_says_why(facts: Facts) -> None:
    assert [name for name, row in all_rows(facts) if not row.confirmed and not row.note] == []


def test_every_row_names_a_source_that_others_can_read(facts: Facts) -> None:
    for name, row in all_rows(facts):
        assert row.source.strip(), name
        text = f"{row.source} {row.note}".lower()
        assert "fact sheet" not in text, name
        assert not re.search(r"(^|[\s(`])/(home|root|tmp|users|work)/", text), name


def test_control_planes_stand_in_zones_of_their_region(facts: Facts) -> None:
    for name, region in facts.regions.items():
        assert set(region.control_plane_zone_ids) <= set(region.zone_ids), name
        assert len(region.control_plane_zone_ids) >= 2, name
    everywhere = {zone for row in facts.regions.values() for zone in row.control_plane_zone_ids}
    assert everywhere.isdisjoint({"use1-az3", "usw1-az2", "cac1-az3"})


def test_zone_ids_belong_to_one_region_each(facts: Facts) -> None:
    zones = [zone for row in facts.regions.values() for zone in row.zone_ids]
    assert len(zones) == len(set(zones))
    prefixes = {
        name: {zone.partition("-")[0] for zone in row.zone_ids} for name, row in facts.regions.items()
    }
    assert all(len(found) == 1 for found in prefixes.values())


def test_operator_image_accounts_are_account_ids(facts: Facts) -> None:
    accounts = [row.operator_image_account for row in facts.regions.values() if row.operator_image_account]
    assert all(re.fullmatch(r"\d{12}", account) for account in accounts)
    assert len(accounts) == len(set(accounts))
    without = {name for name, row in facts.regions.items() if row.operator_image_account is None}
    assert without == {"ap-northeast-2", "ap-south-2", "ca-central-1"}


def test_dpd_types_are_those_that_aws_lists(facts: Facts) -> None:
    assert set(facts.dpd_instance_types()) == DPD_TYPES
    for name in DPD_TYPES:
        row = facts.instances[name]
        assert row.gpu_count == 8, name
        assert row.efa_devices in (8, 16, 32), name
        assert row.network_label_layers == (4 if "p6" in name else 3), name
        assert row.pods_per_node == 49, name
    assert facts.instances["ml.p5.48xlarge"].addresses_per_node == 81


def test_pods_fit_into_the_addresses_of_their_node(facts: Facts) -> None:
    for name, row in facts.instances.items():
        assert 0 < row.pods_per_node < row.addresses_per_node, name


def test_dpd_types_have_a_price_or_are_known_to_have_none(facts: Facts) -> None:
    priced = {key.partition("/")[0] for key in facts.prices}
    assert DPD_TYPES - priced == WITHOUT_PRICE
    for key, row in facts.prices.items():
        assert key.endswith(f"/{row.region}"), key
        assert row.usd_per_hour > 0, key
        assert row.basis == "published" or not row.confirmed, key


def test_dpd_types_have_a_quota(facts: Facts) -> None:
    names = {
        row.instance_type: row.quota_name
        for row in facts.quotas.values()
        if "cluster usage" in row.quota_name
    }
    for name in DPD_TYPES:
        assert names[name] == f"{name} for cluster usage"


def test_images_hold_releases_that_the_tables_know(facts: Facts) -> None:
    for name, image in facts.images.items():
        assert release(image.vllm_version) in facts.vllm, name
        if image.lmcache_version is not None:
            assert image.lmcache_version in facts.lmcache, name
        assert re.match(r"^[\w.-]+\.[\w.-]+/", image.reference), f"{name} lacks a registry"


def test_engines_of_this_machine_hold_releases_that_the_tables_know(facts: Facts) -> None:
    for name, engine in facts.engines.items():
        assert engine.vllm_version in facts.vllm, name
        assert engine.reference == f"{name}=={engine.vllm_version}"


def test_lmcache_on_the_decoder_needs_prefix_caching_off(facts: Facts) -> None:
    for version, row in facts.lmcache.items():
        if version.startswith("0.4."):
            assert not row.decode_prefix_caching_safe, version
    assert not facts.lmcache["0.4.3"].supports_mla


def test_flags_that_we_set_exist_in_every_release(facts: Facts) -> None:
    for version, table in facts.vllm.items():
        assert set(table.flags) >= FLAGS_WE_SET, version


def test_flag_tables_are_consistent(facts: Facts) -> None:
    spelling = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
    for version, table in facts.vllm.items():
        assert all(spelling.match(flag) for flag in table.flags), version
        assert set(table.aliases.values()) <= set(table.flags), version
        assert set(table.aliases).isdisjoint(table.flags), version
        assert set(table.removed).isdisjoint(table.flags), version
        assert table.aliases["tp"] == "tensor-parallel-size"
        assert table.flags["enable-prefix-caching"] == "bool"
        assert table.flags["kv-transfer-config"] == "json"
        assert "disable-log-requests" in table.removed, version


def test_a_flag_never_comes_back_after_its_removal(facts: Facts) -> None:
    versions = sorted(facts.vllm, key=addon_key)
    for earlier, later in pairwise(versions):
        assert set(facts.vllm[earlier].removed) <= set(facts.vllm[later].removed), later
        gone = set(facts.vllm[earlier].flags) - set(facts.vllm[later].flags)
        assert gone <= set(facts.vllm[later].removed), later


def test_dpd_begins_with_operator_3_2(facts: Facts) -> None:
    for version, row in facts.operator.items():
        assert row.supports_dpd == (addon_key(version)[:2] >= (1, 3)), version
    assert facts.operator["v1.3.0-eksbuild.1"].known_defects
    assert not facts.operator["v1.4.0-eksbuild.1"].known_defects


def test_addon_defaults_reach_their_minimum(facts: Facts) -> None:
    for name, row in facts.addons.items():
        assert addon_key(row.default_version) >= addon_key(row.minimum_version), name
        assert re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", row.default_version), name
    default = facts.addons["amazon-sagemaker-hyperpod-inference"].default_version
    assert facts.operator[default].supports_dpd


def test_every_addon_has_configuration_keys(facts: Facts) -> None:
    assert set(facts.addon_configuration) == set(facts.addons)
    for name, row in facts.addon_configuration.items():
        assert set(row.required) <= set(row.keys), name


def test_kubernetes_versions_overlap_for_the_whole_stack(facts: Facts) -> None:
    usable = [v for v, row in facts.kubernetes.items() if row.hyperpod and row.operator]
    assert usable == ["1.32", "1.33", "1.34", "1.35"]
    for version, row in facts.kubernetes.items():
        minor = version.partition(".")[2]
        assert row.kubectl_layer_module == f"aws_cdk.lambda_layer_kubectl_v{minor}"
        assert row.kubectl_layer_package is not None
        assert row.kubectl_layer_package.startswith(f"aws-cdk.lambda-layer-kubectl-v{minor}==")


def test_charts_are_pinned_to_a_whole_commit(facts: Facts) -> None:
    for name, row in facts.charts.items():
        assert re.fullmatch(r"[0-9a-f]{40}", row.commit), name


def test_every_constant_has_a_reader_and_a_unit(facts: Facts) -> None:
    root = Path(__file__).resolve().parents[2]
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("dpd", "k8s", "stacks", "constructs", "tests/unit/sizing")
        for path in (root / folder).rglob("*.py")
    )
    assert [name for name in facts.constants if f'"{name}"' not in code] == []
    assert all(row.unit for row in facts.constants.values())


def regional_types() -> dict[str, set[str]]:
    """Return the instance types per region in cfn-lint's enumeration, for regions with the resource."""
    schemas = files("cfnlint.data.schemas")
    text = schemas.joinpath("extensions/aws_sagemaker_cluster/instancetype_enum.json").read_text("utf-8")
    enumerations: dict[str, object] = json.loads(text)
    found: dict[str, set[str]] = {}
    for region, row in enumerations.items():
        if not isinstance(row, dict):
            continue
        provider = json.loads(schemas.joinpath(f"providers/{region}.json").read_text("utf-8"))
        if "AWS::SageMaker::Cluster" in provider:
            found[region] = set(row["enum"])
    return found


def test_regions_agree_with_the_schemas_of_cfn_lint(facts: Facts) -> None:
    theirs = regional_types()
    ours = {name for name, row in facts.regions.items() if row.hyperpod}
    assert ours == set(theirs)
    for name, row in facts.regions.items():
        assert DPD_TYPES & set(row.instance_types) == DPD_TYPES & theirs[name], name
        assert set(row.instance_types) <= theirs[name], name
    offered = {kind for row in facts.regions.values() for kind in row.instance_types}
    assert DPD_TYPES - offered == WITHOUT_REGION


def test_every_type_of_a_region_is_in_the_instance_table(facts: Facts) -> None:
    for name, row in facts.regions.items():
        for kind in row.instance_types:
            assert facts.instances[kind].gpu is not None, f"{name}: {kind}"
