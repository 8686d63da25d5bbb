import logging
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dpd.router.config import RouterConfig
from dpd.router.discovery.cluster import Cluster, NotInCluster


def pod(address, **conditions):
    ready = {"ready": True, "serving": True, "terminating": False} | conditions
    return {
        "addresses": [address],
        "conditions": ready,
        "nodeName": "ip-10-1-0-1.us-west-2.compute.internal",
        "targetRef": {"kind": "Pod", "namespace": "inference", "name": f"pod-{address}", "uid": "3b0c"},
        "zone": "us-west-2a",
    }


def one_pod(api):
    api.put("prefill-1", pod("10.1.0.1"))


def test_what_is_listed_is_published(follow):
    async def steps(run):
        await run.finds("10.1.0.1", "10.1.0.2")

    follow(steps, lambda api: api.put("prefill-1", pod("10.1.0.1"), pod("10.1.0.2")))


def test_a_service_without_pods_is_published_as_empty(follow):
    async def steps(run):
        await run.finds()

    follow(steps)


def test_pods_that_come_and_go_are_followed(follow):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.put("prefill-1", pod("10.1.0.1"), pod("10.1.0.2"))
        await run.finds("10.1.0.1", "10.1.0.2")
        run.api.put("prefill-1", pod("10.1.0.2"))
        await run.finds("10.1.0.2")
        run.api.put("prefill-1")
        await run.finds()
        assert run.api.requests == ["list", "watch"]

    follow(steps, one_pod)


def test_the_slices_of_a_service_are_merged(follow):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.put("prefill-2", pod("10.1.0.2"))
        await run.finds("10.1.0.1", "10.1.0.2")
        run.api.delete("prefill-1")
        await run.finds("10.1.0.2")

    follow(steps, one_pod)


@pytest.mark.parametrize(
    "conditions",
    [
        {"ready": False},
        {"ready": False, "serving": True, "terminating": True},
        {"ready": True, "serving": True, "terminating": True},
    ],
    ids=["not-ready", "terminating-but-serving", "terminating-of-a-service-that-publishes-all"],
)
def test_a_pod_that_should_get_nothing_new_is_out(follow, conditions):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.put("prefill-1", pod("10.1.0.1", **conditions), pod("10.1.0.2"))
        await run.finds("10.1.0.2")

    follow(steps, one_pod)


def test_unknown_conditions_mean_ready(follow):
    async def steps(run):
        await run.finds("10.1.0.1")

    follow(steps, lambda api: api.put("prefill-1", {"addresses": ["10.1.0.1"], "conditions": {}}))


def test_a_dual_stack_pod_is_one_worker(follow):
    def both(api):
        api.put("prefill-4", pod("10.1.0.1"))
        api.put("prefill-6", pod("fd00::1"), family="IPv6")

    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.delete("prefill-4")
        await run.finds("[fd00::1]")

    follow(steps, both)


@pytest.mark.parametrize("way", ["drop", "end"])
def test_a_watch_that_ended_goes_on_where_it_was(follow, way):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.put("prefill-1", pod("10.1.0.2"))
        await run.finds("10.1.0.2")
        getattr(run.api, way)()
        run.api.put("prefill-1", pod("10.1.0.3"))
        await run.requested("list", "watch", "watch")
        await run.finds("10.1.0.3")

    follow(steps, one_pod)


@pytest.mark.parametrize("status", [200, 410], ids=["in-the-stream", "as-the-answer"])
def test_a_version_that_is_gone_leads_to_a_new_list(follow, status):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.gone_status = status
        run.api.drop()
        run.api.delete("prefill-1")
        run.api.put("prefill-2", pod("10.1.0.2"))
        run.api.compact()
        await run.finds("10.1.0.2")
        await run.requested("list", "watch", "watch", "list", "watch")
        assert run.sets == [["10.1.0.1:8000"], ["10.1.0.2:8000"]]

    follow(steps, one_pod)


def test_a_bookmark_saves_the_new_list(follow):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.bookmark()
        run.api.compact()
        run.api.end()
        await run.requested("watch", "watch")
        run.api.put("prefill-1", pod("10.1.0.2"))
        await run.finds("10.1.0.2")
        assert run.api.requests == ["list", "watch", "watch"]

    follow(steps, one_pod)


def test_lines_are_put_together_from_pieces(follow):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.chunk_bytes = 7
        run.api.put("prefill-1", pod("10.1.0.2"))
        run.api.put("prefill-1", pod("10.1.0.3"))
        await run.finds("10.1.0.3")
        assert run.sets == [["10.1.0.1:8000"], ["10.1.0.2:8000"], ["10.1.0.3:8000"]]

    follow(steps, one_pod)


def test_a_slice_of_the_largest_size_is_read(follow):
    addresses = [f"10.1.{number // 250}.{number % 250}" for number in range(1000)]

    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.put("prefill-1", *map(pod, addresses))
        await run.finds(*sorted(addresses, key=lambda one: f"{one}:8000"))

    follow(steps, one_pod)


def test_a_token_that_rotates_is_read_anew(follow):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.token = "second"
        (run.account / "token").write_text("second")
        run.api.drop()
        run.api.put("prefill-1", pod("10.1.0.2"))
        await run.finds("10.1.0.2")
        assert run.api.requests == ["list", "watch", "watch"]

    follow(steps, one_pod)


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            (403, "endpointslices is forbidden"),
            "needs get, list and watch on endpointslices.discovery.k8s.io",
        ),
        ((500, "etcdserver: leader changed"), "500"),
    ],
)
def test_a_refusal_keeps_the_workers_and_is_said_once(follow, caplog, refusal, said):
    async def steps(run):
        await run.finds("10.1.0.1")
        await run.watching()
        run.api.refusal = refusal
        run.api.drop()
        await run.requested("watch", "watch", "watch")
        assert run.sets == [["10.1.0.1:8000"]]
        run.api.put("prefill-1", pod("10.1.0.2"))
        run.api.refusal = None
        await run.finds("10.1.0.2")

    with caplog.at_level(logging.WARNING, logger="dpd.router.discovery"):
        follow(steps, one_pod)
    refused = [record.why for record in caplog.records if str(refusal[0]) in record.why]
    assert len(refused) == 1
    assert said in refused[0]


@pytest.fixture
def certificate(tmp_path_factory):
    """Return the files of a certificate of 127.0.0.1, its own authority, and of its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "tls.crt", folder / "tls.key"


def test_https_is_trusted_by_the_account_s_authority(follow, account, certificate):
    certificate_file, key_file = certificate
    (account / "ca.crt").write_bytes(certificate_file.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file, key_file)

    async def steps(run):
        await run.finds("10.1.0.1")

    follow(steps, one_pod, tls=context)


def kubernetes(**fields):
    workers = {
        "source": "kubernetes",
        "kubernetes": {"prefill_service": "p", "decode_service": "d", **fields},
    }
    return RouterConfig.model_validate({"workers": workers}).workers.kubernetes


@pytest.mark.parametrize(
    ("host", "url"), [("172.20.0.1", "https://172.20.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_knows_its_cluster(account, host, url):
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    cluster = Cluster.find(kubernetes(), environment, account)
    assert (cluster.url, cluster.namespace) == (url, "inference")


def test_outside_a_cluster_all_that_is_missing_is_named(tmp_path):
    with pytest.raises(NotInCluster, match="api_server and namespace not set"):
        Cluster.find(kubernetes(), {}, tmp_path)
