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
        MINIMAL + "lmcache: {}": "has no effect with `transport: nixl`",
        MINIMAL + "routing: {strategy: kvaware}": "needs the KV events of each prefiller",
        MINIMAL
        + "transport: lmcache\nlmcache: {ranks: 2, receiver_init_ports: [1]}": "one port for each of 2",
        MINIMAL + "transport: lmcache\nlmcache: {ranks: 2}": "one port for each of 2 ranks, got 0",
    }.items(),
)
def test_what_does_not_fit_together_is_refused(tmp_path, text, part):
    config, found = findings(tmp_path, text)
    assert config is None
    assert any(part in finding.text() for finding in found), [finding.text() for finding in found]


def test_kvaware_starts_with_kv_events(tmp_path):
    config, found = findings(
        tmp_path, "workers: {decode: ['http://d:1'], kv_events_port: 5557}\nrouting: {strategy: kvaware}"
    )
    assert not found
    assert config.routing.strategy == "kvaware"
