from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hermes_tasks.tools.guard import GuardedResolver, Refused, checked_url, public
from tests.integration.web_site import Names, Site, fetch, serving

pytestmark = pytest.mark.anyio
METADATA = "http://169.254.169.254/latest/meta-data/"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as site:
        yield site


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "168.63.129.16",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "192.0.0.192",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "2001:0:0:0:0:0:80ff:fffe",
        "x",
    ],
)
async def test_these_addresses_are_not_public(address: str) -> None:
    assert not public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
async def test_these_are(address: str) -> None:
    assert public(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "\uff11\uff12\uff17.0.0.1",
        "127\u30020\u30020\u30021",
        "\u24db\u24de\u24d2\u24d0lhost",
        "127.0.0.1.",
        "LOCALHOST.",
    ],
)
async def test_no_spelling_of_this_machine_is_asked(site: Site, host: str) -> None:
    output = await fetch(site.url("/secret", host), allow_private=False)
    assert output.error
    assert output.content.startswith("not fetched: ")
    assert site.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://example.org/",
        "javascript:alert(1)",
        "example.org",
        "",
        "http://",
        "http://[",
        "http://user:pw@example.org/",
        "http://x@example.org",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://example.org:22/",
        "http://example.org:25/",
        "https://example.org:993/",
        "http://1.2.3.4.5/",
        "http://016.1/",
        "http://[fe80::1%25eth0]/",
        "http://[::1",
    ],
)
async def test_only_plain_http_addresses_are_taken(url: str) -> None:
    output = await fetch(url)
    assert output.error
    assert output.content.startswith(("not fetched: ", "not run: url"))
    with pytest.raises(Refused):  # before anything is looked up
        checked_url(url, allow_private=True)


@pytest.mark.parametrize(
    "place",
    [
        METADATA,
        "http://[fe80::1]/",
        "http://224.0.0.1/",
        "//169.254.169.254/x",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "http://u:p@127.0.0.1/",
        "http://127.0.0.1:22/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://2852039166/",
        "http://[",
    ],
)
async def test_a_redirect_is_checked_like_the_first_address(site: Site, place: str) -> None:
    output = await fetch(site.redirect("/go", place))
    assert output.error
    assert output.content.startswith("not fetched: ")
    assert site.asked == ["/go"]


async def test_a_redirect_to_a_name_of_a_private_address_is_refused(site: Site) -> None:
    names = Names(inside_example=[["169.254.169.254"]])
    output = await fetch(site.redirect("/go", "http://inside.example/"), names=names)
    assert "inside.example is not on the public internet" in output.content


async def test_a_name_that_changes_its_address_is_caught_at_the_next_look(site: Site) -> None:
    names = Names(rebind_example=[["127.0.0.1"], ["169.254.169.254"]])
    url = site.redirect("/one", site.url("/two", "rebind.example")).replace("127.0.0.1", "rebind.example")
    output = await fetch(url, names=names)
    assert output.error
    assert site.asked == ["/one"]
    assert names.looked_up == ["rebind.example"] * 2


async def test_the_connection_goes_to_the_address_that_was_checked(site: Site) -> None:
    names = Names(pinned_example=[["127.0.0.1"], ["169.254.169.254"]])
    site.text("/", "hello", "text/plain")
    output = await fetch(site.url("/", "pinned.example"), names=names)
    assert "hello" in output.content
    assert names.looked_up == ["pinned.example"]  # once: there is no second look that could differ


async def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    resolver = GuardedResolver(allow_private=False, lookup=Names(mixed_example=[["1.1.1.1", "10.0.0.1"]]))
    with pytest.raises(Refused, match="not on the public internet"):
        await resolver.resolve("mixed.example", 80)


async def test_public_addresses_are_handed_on_as_they_are() -> None:
    names = Names(good_example=[["1.1.1.1", "2606:4700::1111"]])
    found = await GuardedResolver(allow_private=False, lookup=names).resolve("good.example", 443)
    assert [entry["host"] for entry in found] == ["1.1.1.1", "2606:4700::1111"]
    assert {entry["hostname"] for entry in found} == {"good.example"}


async def test_private_networks_must_be_allowed_and_metadata_cannot_be() -> None:
    assert str(checked_url("http://10.0.0.1/x", allow_private=True)) == "http://10.0.0.1/x"
    for url in ("http://10.0.0.1/", "http://[fc00::1]/"):
        with pytest.raises(Refused):
            checked_url(url, allow_private=False)
    for url in (
        METADATA,
        "http://168.63.129.16/",
        "http://100.100.100.200/",
        "http://192.0.0.192/",
        "http://[fd00:ec2::254]/",
        "http://[fd20:ce::254]/",
        "http://[fd00:42::42]/",
        "http://[ff02::1]/",
        "http://0.0.0.0/",
        "http://240.0.0.1/",
    ):
        with pytest.raises(Refused):
            checked_url(url, allow_private=True)


@pytest.mark.parametrize("port", [80, 443, 1024, 8080, 65535])
async def test_ports_of_the_web_are_taken(port: int) -> None:
    assert checked_url(f"http://example.org:{port}/", allow_private=False).port == port


async def test_a_name_in_any_script_is_looked_up_as_names_are_written(site: Site) -> None:
    site.text("/", "hello", "text/plain")
    names = Names(**{"xn--bcher-kva_example": [["127.0.0.1"]]})
    assert "hello" in (await fetch(site.url("/", "bücher.example"), names=names)).content
    assert names.looked_up == ["xn--bcher-kva.example"]


async def test_a_redirect_that_leads_back_ends(site: Site) -> None:
    url = site.redirect("/a", site.redirect("/b", "/a"))
    assert (await fetch(url)).content == "not fetched: more than 5 redirects"
    assert site.asked == ["/a", "/b"] * 3
