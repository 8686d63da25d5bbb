"""Names that the stacks give and the command line must find again."""

from __future__ import annotations

from collections.abc import Mapping

ENVIRONMENT_TAG = "hyperpod-dpd/environment"
"""Tag of every resource, by which budgets and cost reports tell environments apart."""


def environment_tags(environment: str, further: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of every resource of an environment."""
    return {**further, ENVIRONMENT_TAG: environment}


def cluster_name(environment: str) -> str:
    """Return the name that the EKS and the HyperPod cluster of an environment share."""
    return f"dpd-{environment}"


def stack_name(environment: str, part: str) -> str:
    """Return the CloudFormation name of one stack, such as network, cluster or operator."""
    return f"dpd-{environment}-{part}"


def model_stack_name(environment: str, kubernetes_name: str) -> str:
    """Return the CloudFormation name of the stack that serves one model."""
    return stack_name(environment, f"model-{kubernetes_name}")


def weights_bucket_name(environment: str, account: str, region: str) -> str:
    """Return the bucket of model weights; ``account`` may be a token such as ``${AWS::AccountId}``."""
    return f"dpd-{environment}-weights-{account}-{region}"


def access_log_bucket_name(environment: str, account: str, region: str) -> str:
    """Return the bucket in which S3 logs the accesses to all other buckets."""
    return f"dpd-{environment}-access-logs-{account}-{region}"


def lifecycle_bucket_name(environment: str, account: str, region: str) -> str:
    """Return the bucket of lifecycle scripts.

    AmazonSageMakerClusterInstanceRolePolicy reads only buckets that begin with `sagemaker-`.
    """
    return f"sagemaker-dpd-{environment}-{account}-{region}"


def tls_bucket_name(environment: str, account: str, region: str) -> str:
    """Return the bucket in which the operator keeps certificates.

    AmazonSageMakerHyperPodInferenceAccess writes only to buckets that begin with `hyperpod-tls`.
    """
    return f"hyperpod-tls-dpd-{environment}-{account}-{region}"


def mirror_bucket_name(environment: str, account: str, region: str) -> str:
    """Return the bucket in which `dpd mirror` keeps the base chart of a closed network."""
    return f"dpd-{environment}-mirror-{account}-{region}"


def mirror_repository(name: str) -> str:
    """Return the registry's repository of one mirrored image; environments of one account share it."""
    return f"dpd/{name}"


def placement_group_export(environment: str) -> str:
    """Return the CloudFormation export that holds the name of the placement group."""
    return f"dpd-{environment}-placement-group"
