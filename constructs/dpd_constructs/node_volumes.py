"""The EBS volumes of HyperPod nodes."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker

from dpd.spec.instance_group import Group


def node_volumes(
    group: Group, key: kms.IKey | None
) -> Sequence[sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty] | None:
    """Return the volumes of a group's nodes under ``key``, or None where the service's defaults do.

    The root volume takes no size beside its key, and a group's key can never change (developer guide,
    page smcluster-cmk).
    """
    key_arn = key.key_arn if key else None
    volumes: list[sagemaker.CfnCluster.ClusterEbsVolumeConfigProperty] = []
    if key_arn:
        volumes.append(
            sagemaker.CfnCluster.ClusterEbsVolumeConfigProperty(root_volume=True, volume_kms_key_id=key_arn)
        )
    if group.secondary_volume_gb:
        volumes.append(
            sagemaker.CfnCluster.ClusterEbsVolumeConfigProperty(
                volume_size_in_gb=group.secondary_volume_gb, volume_kms_key_id=key_arn
            )
        )
    return [
        sagemaker.CfnCluster.ClusterInstanceStorageConfigProperty(ebs_volume_config=volume)
        for volume in volumes
    ] or None
