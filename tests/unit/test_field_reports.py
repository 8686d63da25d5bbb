"""Every public failure report that synthesis can stop is stopped, by a rule or by a guarantee with a test.

The letters say where a report can be caught: S at synthesis, T because the templates never hold it, F before
deployment against AWS, V after it against the running system. A test stands as `file::name` below tests/.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from dpd.rules import rules

TESTS = Path(__file__).resolve().parents[1]

GUARANTEED: dict[str, tuple[str, tuple[str, ...]]] = {
    "P-01": ("STF", ("NET003", "policy/test_network.py::test_node_group_names_itself")),
    "P-02": ("S", ("NET003", "VAL002", "policy/test_validation.py::test_a_broken_template_is_found")),
    "P-04": ("S", ("CAP007", "policy/test_network.py::test_no_template_names_a_zone")),
    "P-05": (
        "T",
        (
            "unit/test_base_chart_handler.py::test_a_build_that_is_gone_is_a_failure",
            "unit/test_waiter_handler.py::test_an_error_of_the_service_is_not_taken_for_waiting",
        ),
    ),
    "P-06": ("TF", ("golden/test_iam_roles.py::test_each_role_is_as_reviewed",)),
    "P-07": ("S", ("policy/test_iam.py::test_object_actions_name_objects_and_bucket_actions_a_bucket",)),
    "P-08": (
        "TSV",
        (
            "policy/test_hyperpod.py::test_uploaded_script_is_the_one_in_the_repository",
            "unit/test_lifecycle_script.py::test_first_run_puts_both_directories_on_the_volume",
        ),
    ),
    "P-09": ("S", ("CAP001", "CAP012")),
    "P-11": (
        "S",
        ("CLU004", "policy/test_hyperpod_options.py::test_nodes_may_make_interfaces_in_both_subnets"),
    ),
    "P-12": (
        "TS",
        ("OPR005", "policy/test_hyperpod.py::test_every_group_has_a_lifecycle_script_in_a_sagemaker_bucket"),
    ),
    "P-13": ("S", ("CLU005", "VAL002")),
    "P-14": ("T", ("policy/test_cluster.py::test_hyperpod_cluster_waits_for_the_chart",)),
    "P-15": (
        "TS",
        ("IMG004", "CAP008", "unit/test_k8s_render.py::test_p15_no_pod_joins_the_network_of_its_host"),
    ),
    "P-16": ("SF", ("NET001", "CAP016")),
    "P-17": ("T", ("policy/test_network.py::test_no_subnet_gives_public_addresses",)),
    "P-18": ("TSF", ("OPR002", "CLU004", "policy/test_operator.py::test_every_addon_is_pinned")),
    "P-19": ("S", ("CAP007", "CAP013")),
    "P-20": ("S", ("OPR001", "OPR003")),
    "P-21": ("S", ("CAP007",)),
    "P-22": ("T", ("policy/test_cluster.py::test_device_plugins_run_on_every_dpd_type_and_on_no_cpu_type",)),
    "P-23": ("S", ("CLU007",)),
    "P-24": ("S", ("EFA006", "LBL001")),
    "P-25": (
        "S",
        (
            "OPR008",
            "VAL006",
            "unit/test_field_guarantees.py::test_p25_every_override_names_a_part_of_the_chart",
        ),
    ),
    "P-27": ("S", ("CAP006", "NET005")),
    "P-28": ("T", ("unit/test_field_guarantees.py::test_p28_every_dependency_is_pinned",)),
    "P-30": ("TS", ("OPR004", "policy/test_operator.py::test_each_role_trusts_exactly_one_service_account")),
    "P-31": (
        "TF",
        ("OPR004", "policy/test_network.py::test_private_subnets_leave_through_nat_and_reach_s3_without_it"),
    ),
    "P-32": ("S", ("EFA001", "EFA002")),
    "P-33": ("SV", ("EFA001",)),
    "P-35": ("SV", ("IMG004", "EFA001", "EFA003")),
    "P-37": ("S", ("OPR011",)),
    "P-38": ("S", ("EFA004", "policy/test_hidden_devices.py::test_what_covers_the_devices")),
    "P-39": ("S", ("IMG006", "IMG007")),
    "P-41": ("S", ("policy/test_field_guarantees.py::test_p41_no_security_group_rule_stands_twice",)),
    "P-42": ("S", ("CAP002",)),
    "P-43": ("T", ("CAP003", "policy/test_network.py::test_no_placement_group_unless_asked")),
    "P-44": ("S", ("CAP002",)),
    "P-46": ("SF", ("CAP004", "CAP001")),
    "P-47": (
        "SV",
        ("SRV001", "property/test_manifest_property.py::test_roles_share_image_variables_and_arguments"),
    ),
    "P-48": (
        "T",
        (
            "SRV001",
            "LMC001",
            "property/test_manifest_property.py::test_roles_share_image_variables_and_arguments",
        ),
    ),
    "P-49": ("SV", ("KVC001", "KVC002")),
    "P-50": ("S", ("unit/test_lmcache_settings.py::test_buffer_and_pages_follow_the_chunk_size",)),
    "P-51": ("S", ("KVC001",)),
    "P-52": ("S", ("KVC002",)),
    "P-53": ("SV", ("SRV004",)),
    "P-54": (
        "SV",
        ("LMC001", "RTG002", "unit/test_deployment.py::test_lmcache_gets_its_buffer_and_seed_by_variables"),
    ),
    "P-55": ("SV", ("KVC001",)),
    "P-56": ("S", ("SRV002",)),
    "P-58": ("S", ("WRK003",)),
    "P-60": ("S", ("IMG001", "IMG002", "LMC004", "SRV005")),
    "P-61": ("SV", ("IMG002", "LMC004")),
    "P-62": ("S", ("IMG001", "IMG003", "IMG005")),
    "P-63": (
        "S",
        ("IMG007", "property/test_manifest_property.py::test_roles_share_image_variables_and_arguments"),
    ),
    "P-64": ("S", ("SRV002", "SRV010")),
    "P-65": ("S", ("SRV003", "SRV011")),
    "P-66": ("S", ("EFA005",)),
    "P-67": ("S", ("SRV012",)),
    "P-68": ("S", ("SRV012", "WRK003")),
    "P-69": ("S", ("SCL001", "SCL002")),
    "P-70": ("SV", ("RTG001", "RTG002")),
    "P-71": ("S", ("RTG003", "OPR003", "IMG001")),
    "P-76": ("T", ("unit/test_constructs_folder.py::test_folder_has_no_init_file",)),
    "P-77": ("TS", ("policy/test_cluster.py::test_missing_kubectl_layer_names_the_package",)),
    "P-78": ("S", ("CLU001", "policy/test_cluster.py::test_unknown_kubernetes_version_lists_the_known_ones")),
    "P-79": ("S", ("policy/test_field_guarantees.py::test_p79_helm_gives_up_before_it_is_killed",)),
    "P-80": ("T", ("policy/test_cluster.py::test_kubectl_provider_runs_beside_the_private_endpoint",)),
    "P-81": ("T", ("policy/test_model_stack.py::test_shared_namespace_may_exist_and_outlives_the_model",)),
    "P-82": (
        "T",
        (
            "policy/test_model_stack.py::test_teardown_order_is_enforced_by_imports",
            "policy/test_cluster.py::test_chart_outlives_nothing_that_its_removal_needs",
        ),
    ),
    "P-83": ("T", ("policy/test_brought.py::test_people_and_build_get_access_entries", "VAL002")),
    "P-84": ("T", ("policy/test_operator.py::test_crd_is_read_after_the_operator",)),
}
"""Report to where it can be caught and what catches it: rules by id, guarantees by the test that holds them.

P-37: only the self-managed runtime could set a security context, and OPR011 refuses it. P-71: the operator
brings its own router, so there is no second tag to keep in step. P-84: no chart with definitions is rendered
here; the add-on brings its own.
"""

ELSEWHERE: dict[str, str] = {
    "P-03": "F: only EC2's capacity answers; the plan's zone is compared by CAP001 where it is written",
    "P-10": "after destroy: interfaces of GuardDuty are AWS's, listed in docs/deployment.md",
    "P-26": "V: events of a deployed object",
    "P-29": "V: devices that nodes offer; the stack waits for them (kubernetes_waits/test_devices.py)",
    "P-34": "V: a transfer rate can only be measured",
    "P-36": "V: which counters of a running node to believe",
    "P-40": "V: the node of each running pod",
    "P-45": "F: quotas of the account; `dpd plan` lists those to ask for",
    "P-57": "V: answers of a running system, compared with decoder-direct ones",
    "P-59": "documentation: the threshold is advised by `dpd plan`, docs/sizing.md",
    "P-72": "V: the operator's router under load",
    "P-73": "V: the mode that a running router reports",
    "P-74": "V: the decision that a running router logs",
    "P-75": "V: a pod that is killed on purpose",
}
"""Reports that synthesis cannot know of, and who can."""


@cache
def functions_of(file: str) -> frozenset[str]:
    """Return the names of the test functions of one file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_report_is_there_once() -> None:
    numbers = [f"P-{number:02}" for number in range(1, 85)]
    assert sorted([*GUARANTEED, *ELSEWHERE]) == numbers


@pytest.mark.parametrize("report", GUARANTEED)
def test_what_stops_the_report_exists(report: str) -> None:
    where, guarantees = GUARANTEED[report]
    assert set(where) & {"S", "T"}, "a report that synthesis cannot stop belongs into ELSEWHERE"
    assert guarantees
    for name in guarantees:
        file, separator, test = name.partition("::")
        if separator:
            assert test in functions_of(file), f"{name} is no test"
        else:
            assert name in rules(), f"{name} is no rule"


@pytest.mark.parametrize("report", ELSEWHERE)
def test_whoever_else_must_look_is_named(report: str) -> None:
    assert len(ELSEWHERE[report]) > 20


def test_rules_name_only_reports_that_lead_back_to_them() -> None:
    for rule in rules().values():
        text = " ".join((rule.doc.symptom, rule.doc.cause))
        for report in re.findall(r"P-[0-9]{2}", text):
            assert report in ELSEWHERE or rule.id in GUARANTEED[report][1], f"{rule.id} names {report}"
