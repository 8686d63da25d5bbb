"""What runs for one deployment, and with which arguments."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dpd.local.home import Home
from dpd.local.process_specs import desired_processes
from dpd.local.state import Desired
from dpd.router.config import RouterConfig, read_config
from dpd.spec.local_deployment import LocalDeployment


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def desired(deployment: LocalDeployment, home: Home) -> Desired:
    return desired_processes(deployment, Path("/models/tiny"), home, {})


def router_config(desired: Desired, tmp_path: Path) -> RouterConfig:
    (text,) = desired.processes[-1].files.values()
    file = tmp_path / "router.yaml"
    file.write_text(text, encoding="utf-8")
    config, findings = read_config(file)
    assert config is not None, findings
    return config


def test_workers_come_before_the_router(desired: Desired) -> None:
    assert [spec.name for spec in desired.processes] == ["prefill-0", "decode-0", "router"]


def test_a_worker_gets_what_is_its_own(desired: Desired, home: Home) -> None:
    prefill = desired.processes[0]
    command = prefill.command
    assert command[0] == str(home.engines / "bin" / "python")
    assert command[command.index("--model") + 1] == "/models/tiny"
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert prefill.url == f"http://127.0.0.1:{command[command.index('--port') + 1]}"
    assert prefill.environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] == str(desired.ports["prefill-0 nixl"])


def test_both_roles_get_the_arguments_of_the_deployment(
    desired: Desired, deployment: LocalDeployment
) -> None:
    for spec, role in zip(desired.processes, deployment.roles, strict=False):
        expected = (*role.shared_args, *role.args)
        assert spec.command[-len(expected) :] == expected
        assert spec.environment.items() >= deployment.env.items()


def test_the_router_knows_every_worker_and_the_threshold(
    desired: Desired, deployment: LocalDeployment, tmp_path: Path
) -> None:
    config = router_config(desired, tmp_path)
    assert [entry.url for entry in config.workers.prefill] == [desired.processes[0].url]
    assert [entry.url for entry in config.workers.decode] == [desired.processes[1].url]
    assert config.routing.threshold_tokens == deployment.model.dpd.routing.threshold_tokens
    assert config.limits.prefill_concurrency == deployment.model.dpd.prefill.max_num_seqs
    assert f"http://{config.listen.host}:{config.listen.port}" == desired.processes[-1].url


def test_no_port_is_given_twice(desired: Desired) -> None:
    assert len(set(desired.ports.values())) == len(desired.ports) == 5


def test_ports_are_kept(desired: Desired, deployment: LocalDeployment, home: Home) -> None:
    again = desired_processes(deployment, Path("/models/tiny"), home, desired.ports)
    assert again == desired


def test_the_router_port_of_the_environment_is_used(deployment: LocalDeployment, home: Home) -> None:
    local = deployment.environment.local.model_copy(update={"router_port": 9123})
    environment = deployment.environment.model_copy(update={"local": local})
    desired = desired_processes(replace(deployment, environment=environment), None, home, {})
    assert desired.ports["router"] == 9123


def test_the_simulator_takes_the_place_of_the_engine(deployment: LocalDeployment, home: Home) -> None:
    desired = desired_processes(deployment, None, home, {})
    command = desired.processes[0].command
    assert command[1:5] == ("-m", "dpd.simulator", "--role", "prefill")
    assert desired.engine == "simulated"


def test_each_replica_is_a_process(deployment: LocalDeployment, home: Home, tmp_path: Path) -> None:
    two = tuple(replace(role, replicas=2) for role in deployment.roles)
    desired = desired_processes(replace(deployment, roles=two), None, home, {})
    assert [spec.name for spec in desired.processes[:-1]] == [
        "prefill-0",
        "prefill-1",
        "decode-0",
        "decode-1",
    ]
    assert len(router_config(desired, tmp_path).workers.decode) == 2


def test_a_colocated_model_has_no_prefiller(deployment: LocalDeployment, home: Home, tmp_path: Path) -> None:
    workers = (replace(deployment.roles[1], name="worker"),)
    desired = desired_processes(replace(deployment, roles=workers), None, home, {})
    config = router_config(desired, tmp_path)
    assert (config.workers.prefill, len(config.workers.decode)) == ((), 1)
    assert desired.processes[0].command[4] == "worker"


def test_a_worker_writes_no_log_line_for_a_health_check(desired: Desired) -> None:
    command = desired.processes[0].command
    assert command[command.index("--disable-access-log-for-endpoints") + 1] == "/health,/metrics"


def test_the_transfer_is_the_deployments(desired: Desired) -> None:
    command = desired.processes[1].command
    transfer = json.loads(command[command.index("--kv-transfer-config") + 1])
    assert transfer["kv_load_failure_policy"] == "recompute"
