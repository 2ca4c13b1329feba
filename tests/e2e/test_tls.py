"""TLS towards clients: versions, ciphers, client certificates, exchange of the certificate on a reload."""
import os
import shutil
import signal
import ssl
import subprocess

import pytest

from harness.certificates import Authority
from harness.gateway import PROGRAM
from harness.wait import until
from test_upgrade import echo, handshake

CONFIG = """
server: {listen: "127.0.0.1:0", workers: 2, tls: {TLS}, header_timeout: 500ms}
admin: {listen: "127.0.0.1:0"}
log: {access: "@ACCESS@"}
upstreams: {up: {targets: [{url: "UPSTREAM"}], idle_timeout: 60s}}
routes: [{name: all, match: {path: /*}, auth: none, upstream: up}]
"""


@pytest.fixture
def authority(folder):
    return Authority(folder)


def context(authority, client=None):
    c = ssl.create_default_context(cafile=authority.certificate)
    if client:
        c.load_cert_chain(*client)
    return c


def start(gateway, upstream, authority, extra="", workers=2):
    crt, key = authority.issue("server")
    return gateway(CONFIG.replace("UPSTREAM", upstream.url).replace("workers: 2", "workers: %d" % workers).replace("TLS", "certificate: %s, key: %s%s" % (crt, key, extra)))


def serial(g, authority):
    with g.connect(tls=context(authority)) as c:
        return c.socket.getpeercert()["serialNumber"]


def test_requests_over_tls(gateway, upstream, authority):
    g = start(gateway, upstream, authority)
    with g.connect(tls=context(authority)) as c:
        assert c.socket.version() == "TLSv1.3"
        for _ in range(3):
            a = c.request("POST", "/x", body=b"hello")
            assert a.status == 200 and upstream.last("/x").body == b"hello"
        assert upstream.last("/x").header("X-Forwarded-Proto") == "https"
        big = b"b" * (5 * 1024 * 1024)
        assert c.request("POST", "/big", body=big).status == 200
        assert upstream.last("/big").body == big
    upstream.on("/down", lambda request, peer: peer.answer(200, body=b"d" * 3000000) or True)
    with g.connect(tls=context(authority)) as c:
        assert c.request("GET", "/down").body == b"d" * 3000000
    assert len(g.access_count(5)) == 5


def test_versions_and_ciphers(gateway, upstream, authority):
    g = start(gateway, upstream, authority)

    def try_with(version, ciphers=None):
        c = context(authority)
        c.minimum_version = c.maximum_version = version
        if ciphers:
            c.set_ciphers(ciphers)
        with g.connect(tls=c) as connection:
            return connection.request("GET", "/x").status, connection.socket.cipher()[0]
    assert try_with(ssl.TLSVersion.TLSv1_3)[0] == 200
    status, cipher = try_with(ssl.TLSVersion.TLSv1_2)
    assert status == 200 and cipher.startswith("ECDHE-") and ("GCM" in cipher or "POLY1305" in cipher)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        try_with(ssl.TLSVersion.TLSv1_2, "AES128-SHA")
    with pytest.raises((ssl.SSLError, ConnectionError, ValueError)):
        try_with(ssl.TLSVersion.TLSv1_1, "ALL:@SECLEVEL=0")


def test_plain_http_to_a_tls_port(gateway, upstream, authority):
    g = start(gateway, upstream, authority)
    with g.connect() as c:
        c.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        c.at_end_of_stream()
    assert upstream.count("/x") == 0
    with g.connect(tls=context(authority)) as c:
        assert c.request("GET", "/x").status == 200


def test_a_handshake_that_never_ends_is_closed(gateway, upstream, authority):
    g = start(gateway, upstream, authority)
    with g.connect() as c:
        c.send(b"\x16\x03\x01")
        assert c.at_end()


def test_client_certificates(gateway, upstream, authority, folder):
    clients, strangers = Authority(folder, "clients"), Authority(folder, "strangers")
    g = start(gateway, upstream, authority, ", client_ca: " + clients.certificate)
    with g.connect(tls=context(authority, clients.issue("good"))) as c:
        assert [c.request("GET", "/x").status for _ in range(2)] == [200, 200]
    for client in (None, strangers.issue("bad")):
        with g.connect(tls=context(authority, client)) as c:
            try:
                assert c.request("GET", "/secret").status == 403
            except (ssl.SSLError, ConnectionError):
                pass    # the library may end the handshake itself
    assert upstream.count("/secret") == 0
    until("refusals are counted", lambda: g.metric("slotgate_refused_requests_total", reason="client_certificate") >= 1)


def test_a_reload_takes_the_new_certificate(gateway, upstream, authority, folder):
    g = start(gateway, upstream, authority, workers=1)      # more would change one after the other
    first = serial(g, authority)
    old = g.connect(tls=context(authority))
    assert old.request("GET", "/x").status == 200
    authority.issue("server")               # over the old files
    assert serial(g, authority) == first
    assert g.reload()
    until("the new certificate", lambda: serial(g, authority) != first)
    assert old.request("GET", "/x").status == 200   # a connection that began with the old one goes on
    old.close()
    second = serial(g, authority)
    other = Authority(folder, "stranger").issue("other")
    shutil.copy(other[1], g.folder + "/server.key")     # a key that does not fit
    assert not g.reload()
    assert serial(g, authority) == second
    status, _, text = g.admin("/status")
    assert status == 200 and "is not the key of" in text


@pytest.mark.parametrize("certificate,key,words", [
    ("server.crt", "other.key", "is not the key of server.tls.certificate"),
    ("server.key", "server.key", "expected a chain of PEM certificates"),
    ("server.crt", "server.crt", "expected a PEM private key"),
])
def test_check_looks_into_the_files(authority, folder, certificate, key, words):
    authority.issue("server")
    authority.issue("other")
    path = folder + "/c.yaml"
    with open(path, "w", encoding="utf-8") as f:
        f.write(CONFIG.replace("UPSTREAM", "http://127.0.0.1:1").replace("TLS", "certificate: %s, key: %s" % (certificate, key))
                .replace("@ACCESS@", "off"))
    for command in ([PROGRAM, "check", "-c", path], [PROGRAM, "-c", path]):
        r = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert r.returncode == 78 and words in r.stderr, r


def test_a_pipe_is_no_certificate(authority, folder):
    """It would wait for somebody who writes, and with it a reload, the signals and the admin listener."""
    authority.issue("server")
    os.mkfifo(folder + "/pipe.crt")
    path = folder + "/c.yaml"
    with open(path, "w", encoding="utf-8") as f:
        f.write(CONFIG.replace("UPSTREAM", "http://127.0.0.1:1").replace("TLS", "certificate: pipe.crt, key: server.key")
                .replace("@ACCESS@", "off"))
    r = subprocess.run([PROGRAM, "check", "-c", path], capture_output=True, text=True, timeout=20, check=False)
    assert r.returncode == 78 and "expected a PEM file" in r.stderr, r


def test_websocket_over_tls(gateway, upstream, authority):
    upstream.on("/ws", echo)
    g = start(gateway, upstream, authority)
    with g.connect(tls=context(authority)) as c:
        c.send(handshake("/ws"))
        assert c.answer().status == 101
        for size in (1, 1000, 200000):
            c.send(b"w" * size)
            assert c.take(size) == b"w" * size
    until("no tunnel", lambda: g.metric("slotgate_connections", state="upgraded") == 0)
    with g.connect(tls=context(authority)) as c:
        assert c.send(handshake("/ws")).answer().status == 101
        g.signal(signal.SIGTERM)
        until("draining", lambda: g.events("draining"))
        g.signal(signal.SIGTERM)
        assert g.process.wait(20) == 0
    assert [(e["http.response.status_code"], e["slotgate.result"], e.get("error.type")) for e in g.access()] == [
        (101, "allowed", None), (101, "failed", "drained")]


def test_clients_that_go_leave_nothing(gateway, upstream, authority):
    g = start(gateway, upstream, authority)
    with g.connect(tls=context(authority)) as c:
        assert c.request("GET", "/x").status == 200
    upstream.drop()
    until("at rest", lambda: g.metric("slotgate_connections") == 0)
    fds = g.fds()
    for i in range(30):
        c = g.connect(tls=context(authority))
        if i % 3 == 0:
            c.send("GET /x HTTP/1.1\r\nHost: h\r\n")
        elif i % 3 == 1:
            c.request("GET", "/x")
        c.abort()
    upstream.drop()
    until("at rest again", lambda: g.metric("slotgate_connections") == 0 and g.fds() <= fds)
