"""EFA004: a volume over the devices that the EFA plugin mounts (report P-38)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dpd.rules import rules
from dpd.validation.manifests import mounts_over_devices, validate_manifests

POD = """
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  containers: [{name: worker, image: example.com/vllm}]
  volumes:
    - {name: shm, emptyDir: {medium: Memory}}
    - {name: rdma, hostPath: {path: /dev/infiniband}}
"""


def test_p38_a_written_manifest_with_the_volume_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    (finding,) = [item for item in validate_manifests(tmp_path, "1.34") if item.id == "EFA004"]
    assert (finding.severity, finding.path) == ("error", "spec.volumes[1].hostPath")
    assert "/dev/infiniband" in finding.message
    (tmp_path / "pod.yaml").write_text(POD.replace("/dev/infiniband", "/opt/models"))
    assert "EFA004" not in {item.id for item in validate_manifests(tmp_path, "1.34")}


@pytest.mark.parametrize(
    ("path", "hides"),
    [
        ("/dev/infiniband", True),
        ("/dev/infiniband/", True),
        ("//dev/./infiniband/uverbs0", True),
        ("/dev", True),
        ("/", False),
        ("/dev/shm", False),
        ("/dev/infinibands", False),
    ],
)
def test_what_covers_the_devices(path: str, *, hides: bool) -> None:
    assert bool(list(mounts_over_devices({"volumes": [{"hostPath": {"path": path}}]}))) is hides


def test_a_host_path_of_another_shape_is_none() -> None:
    assert list(mounts_over_devices({"hostPath": None, "a": [{"hostPath": "text"}, 3]})) == []


@pytest.mark.parametrize(("snippet", "found"), [("bad", 1), ("good", 0)])
def test_the_snippets_of_the_rule(snippet: str, found: int) -> None:
    manifest = yaml.safe_load(getattr(rules()["EFA004"].doc, snippet))
    assert len(list(mounts_over_devices(manifest))) == found
