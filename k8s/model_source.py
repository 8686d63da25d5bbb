"""Where the weights of an InferenceEndpointConfig come from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from k8s.part import Part, Text

# A CloudFormation token such as ${Token[TOKEN.12]} stands for a bucket until deployment, so the
# name is not held to what S3 allows.
Bucket = Annotated[str, Field(pattern=r"^[^/\s]+$")]


class S3Storage(Part):
    """Point at a bucket with weights."""

    bucket_name: Bucket
    region: Text


class FsxStorage(Part):
    """Point at an FSx for Lustre file system with weights."""

    file_system_id: Annotated[str, Field(pattern=r"^fs-[0-9a-f]{8,17}$")]
    dns_name: Text | None = None
    mount_name: Text | None = None


class SecretKeyRef(Part):
    """Point at one key of a Kubernetes secret."""

    name: Text
    key: Text


class HuggingFaceModel(Part):
    """Point at a repository of the Hugging Face hub."""

    model_id: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+$")]
    commit_sha: Annotated[str | None, Field(pattern=r"^[0-9a-f]{40}$")] = None
    token_secret_ref: SecretKeyRef | None = None


class ModelSourceConfig(Part):
    """Say where the weights come from: exactly the part that the type names."""

    model_source_type: Literal["fsx", "s3", "huggingface", "kubernetesVolume"]
    s3_storage: S3Storage | None = None
    fsx_storage: FsxStorage | None = None
    hugging_face_model: HuggingFaceModel | None = None
    model_location: Text | None = None
    prefetch_enabled: StrictBool | None = None

    @model_validator(mode="after")
    def _matches_type(self) -> ModelSourceConfig:
        parts = {"s3": self.s3_storage, "fsx": self.fsx_storage, "huggingface": self.hugging_face_model}
        given = {name for name, part in parts.items() if part is not None}
        if given != {self.model_source_type} & parts.keys():
            raise ValueError(
                f"type `{self.model_source_type}` does not fit the storage given: {sorted(given)}"
            )
        return self
