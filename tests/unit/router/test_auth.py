from hashlib import sha256

import pytest

from dpd.router.auth import Tenants
from dpd.router.config import ApiKey, Auth
from dpd.router.failure import Failure


def key(text, **more):
    return ApiKey(tenant=text, sha256=sha256(text.encode()).hexdigest(), **more)


def test_without_keys_everybody_may_enter():
    assert Tenants(Auth()).identify(None) is None


def test_a_key_names_its_tenant():
    tenants = Tenants(Auth(keys=(key("anna"), key("bert"))))
    assert tenants.identify("Bearer bert").tenant == "bert"
    assert tenants.identify("bearer anna").tenant == "anna"


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer ann", "Basic anna", "anna", "Bearer ä"]
)
def test_any_other_key_is_refused(header):
    with pytest.raises(Failure) as refused:
        Tenants(Auth(keys=(key("anna"),))).identify(header)
    assert refused.value.status == 401


def test_a_tenant_has_a_limit_of_its_own():
    keys = (key("anna", max_concurrent=1), key("bert"))
    tenants = Tenants(Auth(keys=keys))
    leave = tenants.enter(keys[0])
    with pytest.raises(Failure, match="tenant_limit"):
        tenants.enter(keys[0])
    tenants.enter(keys[1])
    leave()
    tenants.enter(keys[0])


def test_the_shared_limit_counts_each_tenant_apart():
    keys = (key("anna"), key("bert"))
    tenants = Tenants(Auth(keys=keys, max_concurrent_per_tenant=1))
    tenants.enter(keys[0])
    tenants.enter(keys[1])
    with pytest.raises(Failure, match="tenant_limit"):
        tenants.enter(keys[1])
