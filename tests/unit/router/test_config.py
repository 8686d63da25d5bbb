import pytest

from dpd.router.config import read_config

MINIMAL = "workers: {prefill: ['http://p:1'], decode: ['http://d:1']}\n"


def findings(tmp_path, text):
    path = tmp_path / "router.yaml"
    path.write_text(text)
    return read_config(path)


def test_a_plain_url_names_a_worker(tmp_path):
    config, found = findings(tmp_path, MINIMAL)
    assert not found
    assert config.workers.decode[0].url == "http://d:1"
    assert config.transport == "nixl"


def test_every_mistake_is_reported_with_its_line(tmp_path):
    _, found = findings(tmp_path, MINIMAL + "limits: {queue_lenght: 3}\nrouting: {threshold_tokens: -1}\n")
    assert {(finding.id, finding.path, finding.line) for finding in found} == {
        ("CFG001", "limits.queue_lenght", 2),
        ("CFG003", "routing.threshold_tokens", 3),
    }
    assert "did you mean `queue_length`?" in "\n".join(finding.text() for finding in found)


@pytest.mark.parametrize(
    ("text", "part"),
    {
        "workers: {}": "needs at least one worker under `decode`",
        "workers: {source: dns}": "needs a section `dns`",
        MINIMAL + "transport: lmcache": "needs a section `lmcache`",
        MINIMAL + "lmcache: {pages_per_decoder: 9}": "has no effect with `transport: nixl`",
        MINIMAL + "routing: {strategy: kvaware}": "needs the KV events of each prefiller",
        MINIMAL + "transport: lmcache\nlmcache: {pages_per_decoder: 9, ranks: 2, receiver_init_ports: [1]}": (
            "one port for each of 2"
        ),
        MINIMAL + "transport: lmcache\nlmcache: {pages_per_decoder: 9, ranks: 2}": "of 2 ranks, got 0",
    }.items(),
)
def test_what_does_not_fit_together_is_refused(tmp_path, text, part):
    config, found = findings(tmp_path, text)
    assert config is None
    assert any(part in finding.text() for finding in found), [finding.text() for finding in found]


@pytest.mark.parametrize(
    "url",
    [
        "http://d:99999",
        "http://d:0",
        "http://d:a",
        "http://d:",
        "http://:80",
        "http://[::1:80",
        "http://a..b:80",
        f"http://{'a' * 64}:80",
        "http://user:secret@d:80",
        "http://d:80?a",
        "http://d:80/v1",
    ],
)
def test_an_address_that_leads_nowhere_is_refused(tmp_path, url):
    _, found = findings(tmp_path, f"workers: {{decode: ['{url}']}}")
    assert [(finding.id, finding.path) for finding in found] == [("CFG003", "workers.decode[0].url")]


@pytest.mark.parametrize(
    "url", ["http://d:80", "https://d.example.com", "http://[::1]:80", "http://10.0.0.1:80"]
)
def test_an_address_of_a_worker(tmp_path, url):
    assert not findings(tmp_path, f"workers: {{decode: ['{url}']}}")[1]


@pytest.mark.parametrize(
    ("text", "path"),
    {
        "workers: {source: dns, dns: {prefill_name: a..b, decode_name: d}}": "workers.dns.prefill_name",
        "workers: {source: dns, dns: {prefill_name: p, decode_name: ''}}": "workers.dns.decode_name",
        MINIMAL + "listen: {host: a..b}": "listen.host",
        "workers: {decode: [{url: 'http://d:1', kv_events: 'tcp://d:99999'}]}": "workers.decode[0].kv_events",
        MINIMAL + "limits: {request_timeout_s: .inf}": "limits.request_timeout_s",
        MINIMAL + "transport: lmcache\nlmcache: {receiver_init_ports: [1]}": "lmcache.pages_per_decoder",
    }.items(),
)
def test_a_value_that_would_fail_later_is_refused(tmp_path, text, path):
    assert path in [finding.path for finding in findings(tmp_path, text)[1]]


def test_pages_of_which_none_is_usable_are_refused(tmp_path):
    ports = "receiver_init_ports: [1], receiver_alloc_ports: [2]"
    _, found = findings(tmp_path, MINIMAL + f"transport: lmcache\nlmcache: {{{ports}, pages_per_decoder: 1}}")
    assert "leaves no page" in found[0].text()


def test_one_key_for_two_tenants_is_refused(tmp_path):
    keys = ", ".join(f"{{tenant: {name}, sha256: '{'0' * 64}'}}" for name in ("a", "b"))
    _, found = findings(tmp_path, MINIMAL + f"auth: {{keys: [{keys}]}}")
    assert "`a` and `b` have the same key" in found[0].text()


def test_kvaware_starts_with_kv_events(tmp_path):
    config, found = findings(
        tmp_path, "workers: {decode: ['http://d:1'], kv_events_port: 5557}\nrouting: {strategy: kvaware}"
    )
    assert not found
    assert config.routing.strategy == "kvaware"
