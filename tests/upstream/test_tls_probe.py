"""TLS: the certificate is checked against the name, the connection goes to the address that was checked."""

import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from feedproxy.errors import FeedproxyError
from feedproxy.upstream.fetch_result import Fetched
from feedproxy.upstream.upstream_errors import Unreachable
from tests.upstream.raw import OK, a_fetcher, a_get, a_policy, origin, play

HOST = "feeds.example"


# A client that checks strictly, as Python 3.13 does, wants an authority to say what its key is for.
_KEY_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A certificate authority of this test run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of a test")])
        self._certificate = (
            self._builder(self._name, self._key, days=30)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_KEY_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=60))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    def trusting(self) -> ssl.SSLContext:
        """Return a client's TLS context that trusts this authority only."""
        pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=pem)

    def serving(self, *names: str, days: int = 30) -> ssl.SSLContext:
        """Return a server's TLS context with a certificate for these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(x509.Name([]), key, days=days)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=True)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        path = self._folder / f"{'-'.join(names)}{days}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(path)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def at_loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def test_tls_uses_name_for_sni_and_certificate_at_checked_address(
    authority: Authority,
) -> None:
    asked: list[str | None] = []
    server = authority.serving(HOST)
    server.sni_callback = lambda socket, name, context: asked.append(name)
    policy = a_policy(lookup=at_loopback)
    async with (
        origin(OK, tls=server) as raw,
        a_fetcher(policy=policy, ssl_context=authority.trusting()) as fetcher,
    ):
        for host in (HOST, HOST, f"{HOST}."):
            got = await fetcher.fetch(a_get(raw.url(host=host)))
            assert isinstance(got, Fetched)
            assert got.response.body == b"ok"
        assert asked == [HOST, HOST]  # the second request used the first one's connection
        assert b"Host: feeds.example:%d\r\n" % raw.port in raw.heads[0]


@pytest.mark.parametrize(
    ("names", "days", "why"),
    [(("other.example",), 30, "not valid for 'feeds.example'"), ((HOST,), -1, "has expired")],
)
async def test_tls_certificate_for_another_name_or_expired_is_unreachable(
    authority: Authority, names: tuple[str, ...], days: int, why: str
) -> None:
    policy = a_policy(lookup=at_loopback)
    async with (
        origin(OK, tls=authority.serving(*names, days=days)) as raw,
        a_fetcher(policy=policy, ssl_context=authority.trusting()) as fetcher,
    ):
        for skip_address_check in (False, True):
            with pytest.raises(Unreachable, match=why):
                await fetcher.fetch(a_get(raw.url(host=HOST)), skip_address_check=skip_address_check)
        assert raw.heads == []


async def test_tls_certificate_of_untrusted_authority_is_unreachable(authority: Authority) -> None:
    async with (
        origin(OK, tls=authority.serving(HOST)) as raw,
        a_fetcher(policy=a_policy(lookup=at_loopback)) as fetcher,
    ):
        with pytest.raises(Unreachable, match="its certificate is not trusted: unable to get local issuer"):
            await fetcher.fetch(a_get(raw.url(host=HOST)))


async def test_tls_certificate_for_the_name_does_not_permit_forbidden_address(authority: Authority) -> None:
    policy = a_policy(allow_private=False, lookup=at_loopback)
    async with (
        origin(OK, tls=authority.serving(HOST)) as raw,
        a_fetcher(policy=policy, ssl_context=authority.trusting()) as fetcher,
    ):
        with pytest.raises(Unreachable):
            await fetcher.fetch(a_get(raw.url(host=HOST)))
        assert raw.connections == 0


async def test_tls_to_port_without_tls_is_unreachable(authority: Authority) -> None:
    async with (
        origin(play(b"HTTP/1.1 400 Bad Request\r\n\r\n", then="close")) as raw,
        a_fetcher(policy=a_policy(lookup=at_loopback), ssl_context=authority.trusting()) as fetcher,
    ):
        raw.scheme = "https"
        raw.greeting = b"220 smtp.example\r\n"
        with pytest.raises(FeedproxyError) as caught:
            await fetcher.fetch(a_get(raw.url(host=HOST)))
        assert caught.type is Unreachable


async def test_fetcher_close_closes_idle_tls_connections_without_waiting(authority: Authority) -> None:
    async with origin(OK, tls=authority.serving(HOST)) as raw:
        fetcher = a_fetcher(policy=a_policy(lookup=at_loopback), ssl_context=authority.trusting())
        await fetcher.fetch(a_get(raw.url(host=HOST)))
        assert len(fetcher._open) == 1
        await fetcher.close()
        assert len(fetcher._open) == 0
