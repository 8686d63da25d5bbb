"""Names keep to the limits of the services that they are given to."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dpd.facts import Facts
from dpd.spec import names

# The longest name that leaves room for the longest prefix, account and region in 63 characters.
LONGEST = "a" * 18


@pytest.mark.parametrize(
    ("make", "prefix"),
    [
        (names.weights_bucket_name, "dpd-"),
        (names.access_log_bucket_name, "dpd-"),
        (names.lifecycle_bucket_name, "sagemaker-"),
        (names.tls_bucket_name, "hyperpod-tls-"),
    ],
)
def test_bucket_names_fit_s3_in_every_region(
    facts: Facts, make: Callable[[str, str, str], str], prefix: str
) -> None:
    for region in facts.regions:
        name = make(LONGEST, "111122223333", region)
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", name), name
        assert name.startswith(prefix)


def test_a_token_stands_where_the_account_is_not_known() -> None:
    name = names.weights_bucket_name("dev", "${AWS::AccountId}", "us-west-2")
    assert name == "dpd-dev-weights-${AWS::AccountId}-us-west-2"


def test_stack_names_are_constant() -> None:
    assert names.stack_name("dev", "network") == "dpd-dev-network"
    assert names.model_stack_name("dev", "llama-3-3-70b") == "dpd-dev-model-llama-3-3-70b"
    assert names.cluster_name("dev") == "dpd-dev"
