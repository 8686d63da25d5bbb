"""Names that the stacks give and the command line must find again."""

from __future__ import annotations


def cluster_name(environment: str) -> str:
    """Return the name that the EKS and the HyperPod cluster of an environment share."""
    return f"dpd-{environment}"


def stack_name(environment: str, part: str) -> str:
    """Return the CloudFormation name of one stack: network, weights, cluster, hyperpod or operator."""
    return f"dpd-{environment}-{part}"


def model_stack_name(environment: str, kubernetes_name: str) -> str:
    """Return the CloudFormation name of the stack that serves one model."""
    return stack_name(environment, f"model-{kubernetes_name}")


def weights_bucket_name(environment: str, account: str, region: str) -> str:
    """Return the bucket of model weights; ``account`` may be a token such as ``${AWS::AccountId}``."""
    return f"dpd-{environment}-weights-{account}-{region}"


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
