"""What each option of an instance group writes into the cluster, and into the network around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpd.facts import Facts
from dpd.rules import check
from dpd.spec.catalog import load_catalog
from dpd.spec.environment import Environment

Template = dict[str, Any]
Built = dict[str, Template]
Build = Callable[..., Built]

DECODE = "hyperpod.groups.decode"
SYSTEM = "hyperpod.groups.system"
ELSEWHERE = {f"{SYSTEM}.zone_id": "usw2-az3", "network.system_subnet_cidr": "10.2.0.0/20"}


def of_type(template: Template, kind: str) -> dict[str, Template]:
    return {name: item for name, item in template["Resources"].items() if item["Type"] == kind}


def group(built: Built, name: str) -> Template:
    (cluster,) = of_type(built["hyperpod"], "AWS::SageMaker::Cluster").values()
    (found,) = (row for row in cluster["Properties"]["InstanceGroups"] if row["InstanceGroupName"] == name)
    return found


def test_spot_is_asked_for_with_an_empty_object_that_survives(build: Build) -> None:
    built = build("dev", {f"{DECODE}.capacity": "spot"})

    assert group(built, "decode")["CapacityRequirements"] == {"Spot": {}}
    assert "CapacityRequirements" not in group(built, "prefill")


def test_fallback_types_take_the_place_of_the_one_type(build: Build) -> None:
    built = build("dev", {f"{DECODE}.fallback_instance_types": ["ml.p5e.48xlarge"]})
    decode = group(built, "decode")

    assert decode["InstanceRequirements"] == {"InstanceTypes": ["ml.p5.48xlarge", "ml.p5e.48xlarge"]}
    assert "InstanceType" not in decode
    (wait,) = of_type(built["hyperpod"], "Custom::HyperPodNodesReady").values()
    wanted = {row["Name"]: row["InstanceTypes"] for row in wait["Properties"]["Groups"]}
    assert wanted["decode"] == ["ml.p5.48xlarge", "ml.p5e.48xlarge"]


def test_an_endpoint_may_use_every_fallback_type(build: Build) -> None:
    built = build("dev", {f"{DECODE}.fallback_instance_types": ["ml.p5e.48xlarge"]})
    (endpoint,) = (
        str(item["Properties"]["Manifest"])
        for name, item in of_type(
            built["model-llama-3-3-70b"], "Custom::AWSCDK-EKS-KubernetesResource"
        ).items()
        if name.startswith("InferenceEndpointConfig")
    )

    assert '"instanceTypes":["ml.p5.48xlarge","ml.p5e.48xlarge"]' in endpoint.replace("\\", "")


def test_taints_stand_beside_the_labels(build: Build) -> None:
    taint = {"key": "gpu", "value": "true", "effect": "PreferNoSchedule"}
    kubernetes = group(build("dev", {f"{DECODE}.taints": [taint]}), "decode")["KubernetesConfig"]

    assert kubernetes == {
        "Labels": {"hyperpod-dpd/role": "decode"},
        "Taints": [{"Key": "gpu", "Value": "true", "Effect": "PreferNoSchedule"}],
    }


@pytest.mark.parametrize("ours", [True, False], ids=["our key", "AWS's key"])
def test_a_secondary_volume_has_a_size_and_the_key_of_the_root_volume(build: Build, ours: bool) -> None:
    built = build("dev", {f"{SYSTEM}.secondary_volume_gb": 200, "encryption.customer_managed": ours})
    volumes = [row["EbsVolumeConfig"] for row in group(built, "system")["InstanceStorageConfigs"]]

    assert volumes[-1]["VolumeSizeInGB"] == 200
    assert {"RootVolume": True} not in volumes, "a root volume needs a key beside it"
    assert len({str(volume.get("VolumeKmsKeyId")) for volume in volumes}) == 1
    assert len(volumes) == (2 if ours else 1)


def test_a_maintenance_window_rolls_in_batches_and_back_on_an_alarm(build: Build) -> None:
    window = {"schedule": "cron(0 3 ? * SUN *)", "batch_nodes": 2, "wait_s": 900, "rollback_alarms": ["slow"]}
    built = build("dev", {"hyperpod.maintenance": window})
    size = {"Type": "INSTANCE_COUNT", "Value": 2}

    for name in ("system", "prefill", "decode"):
        assert group(built, name)["ScheduledUpdateConfig"] == {
            "ScheduleExpression": "cron(0 3 ? * SUN *)",
            "DeploymentConfig": {
                "RollingUpdatePolicy": {"MaximumBatchSize": size, "RollbackMaximumBatchSize": size},
                "WaitIntervalInSeconds": 900,
                "AutoRollbackConfiguration": [{"AlarmName": "slow"}],
            },
        }


def test_without_a_window_nothing_moves_by_itself(build: Build) -> None:
    built = build("dev")

    assert "ScheduledUpdateConfig" not in group(built, "decode")
    assert "AutoPatchConfig" not in str(built["hyperpod"])


def test_a_system_group_elsewhere_has_a_subnet_there_and_the_gpus_stay(build: Build) -> None:
    built = build("dev", ELSEWHERE)
    subnets = of_type(built["network"], "AWS::EC2::Subnet")
    (system,) = (item["Properties"] for name, item in subnets.items() if "SystemSubnet" in name)

    assert (system["AvailabilityZoneId"], system["CidrBlock"]) == ("usw2-az3", "10.2.0.0/20")
    override = group(built, "system")["OverrideVpcConfig"]
    (cluster,) = of_type(built["hyperpod"], "AWS::SageMaker::Cluster").values()
    assert "SystemSubnet" in str(override["Subnets"])
    assert override["SecurityGroupIds"] == cluster["Properties"]["VpcConfig"]["SecurityGroupIds"]
    assert "GpuSubnet" in str(cluster["Properties"]["VpcConfig"]["Subnets"])
    assert not [name for name in ("prefill", "decode") if "OverrideVpcConfig" in group(built, name)]


def test_gpu_groups_may_repeat_the_one_zone(build: Build) -> None:
    both = {f"hyperpod.groups.{role}.zone_id": "usw2-az1" for role in ("prefill", "decode")}

    assert build("dev", both) == build("dev")


def test_the_other_subnet_reaches_out_as_the_gpu_subnet_does(build: Build) -> None:
    resources = build("dev", ELSEWHERE)["network"]
    routes = {
        str(item["Properties"]["SubnetId"]): item["Properties"]["RouteTableId"]
        for item in of_type(resources, "AWS::EC2::SubnetRouteTableAssociation").values()
    }
    (gpu,) = (table for subnet, table in routes.items() if "GpuSubnet" in subnet)
    (system,) = (table for subnet, table in routes.items() if "SystemSubnet" in subnet)

    assert gpu == system


def test_load_balancers_stand_in_the_zone_of_the_system_group(build: Build) -> None:
    """The operator's router runs there, and a load balancer reaches only its own zones."""
    subnets = of_type(build("dev", ELSEWHERE)["network"], "AWS::EC2::Subnet").values()
    zones = {
        item["Properties"]["AvailabilityZoneId"]
        for item in subnets
        if {"Key": "kubernetes.io/role/internal-elb", "Value": "1"} in item["Properties"]["Tags"]
    }

    assert zones == {"usw2-az1", "usw2-az3"}


def test_nodes_may_make_interfaces_in_both_subnets(build: Build) -> None:
    role = next(
        item
        for name, item in of_type(build("dev", ELSEWHERE)["hyperpod"], "AWS::IAM::Role").items()
        if name.startswith("ExecutionRole")
    )
    (statement,) = (
        statement
        for policy in role["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "ec2:CreateNetworkInterface"
    )

    assert {part for part in ("GpuSubnet", "SystemSubnet") if part in str(statement["Resource"])} == {
        "GpuSubnet",
        "SystemSubnet",
    }


@pytest.fixture(scope="module")
def dry(build: Build) -> Built:
    """Return an environment whose GPU groups have no node yet."""
    return build("dev", {"hyperpod.groups.prefill.count": 0, f"{DECODE}.count": 0})


def test_without_gpu_nodes_everything_else_is_deployed(dry: Built, build: Build) -> None:
    assert {stack: sorted(template["Resources"]) for stack, template in dry.items()} == {
        stack: sorted(template["Resources"]) for stack, template in build("dev").items()
    }


def test_without_gpu_nodes_groups_exist_and_nobody_waits_for_them(dry: Built) -> None:
    assert [group(dry, name)["InstanceCount"] for name in ("system", "prefill", "decode")] == [2, 0, 0]
    (nodes,) = of_type(dry["hyperpod"], "Custom::HyperPodNodesReady").values()
    (devices,) = of_type(dry["operator"], "Custom::GpuDevicesReady").values()
    assert {row["Name"]: row["Count"] for row in nodes["Properties"]["Groups"]}["decode"] == 0
    assert {row["Count"] for row in devices["Properties"]["Groups"]} == {0}


def test_without_gpu_nodes_the_whole_bundle_validates(facts: Facts, tmp_path: Path) -> None:
    from dpd.selection import Selection
    from dpd.synth import synthesise

    config = Path(__file__).parents[2] / "config"
    folder = tmp_path / "config"
    (folder / "environments").mkdir(parents=True)
    for part in ("facts", "models"):
        (folder / part).symlink_to(config / part)
    text = (config / "environments/dev.yaml").read_text(encoding="utf-8")
    dry = text.replace("ml.p5.48xlarge, count: 1", "ml.p5.48xlarge, count: 0")
    assert dry.count("count: 0") == 2
    (folder / "environments/dev.yaml").write_text(dry, encoding="utf-8")
    catalog = load_catalog(folder)

    assert check(catalog) == []
    written, findings = synthesise(catalog, facts, Selection(("dev",), None), tmp_path / "out", validate=True)
    assert [path.name for path in written] == ["dev"]
    assert [finding.text() for finding in findings if finding.severity != "info"] == []


def test_environments_of_the_repository_ask_for_none_of_this(
    changed_environment: Callable[..., Environment],
) -> None:
    for name in ("dev", "staging", "prod"):
        environment = changed_environment(name, {})
        assert environment.system_zone_id == environment.gpu_zone_id
        assert environment.schedule is None
