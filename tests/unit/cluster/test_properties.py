"""Java properties files: read as Kafka's tools read them, and refused so that a person finds the line."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.cluster.errors import InvalidConfiguration
from kafka_recovery.cluster.properties import jaas_options, read_security, security_of
from kafka_recovery.cluster.security import Mechanism, Password, Protocol, Security, Store, StoreKind, Tls, TokenSource

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SECRET = "hunter2"


def from_file(tmp_path: Path, text: str) -> Security:
    file = tmp_path / "client.properties"
    file.write_text(text, encoding="latin-1")
    return read_security(file)


def password_of(security: Security) -> Password:
    assert security.sasl
    assert isinstance(security.sasl.credentials, Password)
    return security.sasl.credentials


def token_source_of(security: Security) -> TokenSource:
    assert security.sasl
    assert isinstance(security.sasl.credentials, TokenSource)
    return security.sasl.credentials


class TestFiles:
    def test_nothing_said_is_plaintext(self, tmp_path: Path) -> None:
        assert from_file(tmp_path, "# nothing\n") == Security(Protocol.PLAINTEXT)

    def test_a_file_as_people_write_it(self, tmp_path: Path) -> None:
        security = from_file(
            tmp_path,
            f"""
            # Kafka's own tools take this file too
            security.protocol = sasl_ssl
            sasl.mechanism: SCRAM-SHA-512
            sasl.jaas.config={SCRAM} \\
                username="ann" \\
                password="pass=word; \\\\"quoted\\\\" \\\\\\\\ \\u00e9";
            ssl.truststore.type=PEM
            ssl.truststore.location=/etc/kafka/ca.pem
            ssl.endpoint.identification.algorithm=
            request.timeout.ms=30000
            client.dns.lookup=use_all_dns_ips
            ssl.cipher.suites=TLS_AES_128_GCM_SHA256
            """,
        )

        assert security.protocol is Protocol.SASL_SSL
        assert password_of(security) == Password("ann", 'pass=word; "quoted" \\ é')
        assert security.tls
        assert security.tls.trust
        assert security.tls.trust.location == Path("/etc/kafka/ca.pem")
        assert security.tls.identity is None
        assert not security.tls.check_hostname

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfiguration, match=r"missing\.properties: No such file"):
            read_security(tmp_path / "missing.properties")

    def test_a_broken_escape_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfiguration, match=r"client\.properties: a \\u must be followed by four"):
            from_file(tmp_path, "security.protocol=\\u12\n")

    def test_tls_settings_without_tls_do_no_harm(self) -> None:
        """A file may serve several purposes; Kafka ignores what the protocol does not need."""
        settings = {"ssl.truststore.location": "/nowhere", "sasl.mechanism": "GSSAPI"}
        assert security_of(settings, "a test") == Security()


class TestStores:
    def test_key_and_trust_store(self) -> None:
        security = security_of(
            {
                "security.protocol": "SSL",
                "ssl.truststore.location": "/etc/trust.p12",
                "ssl.truststore.password": SECRET,
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "/etc/key.p12",
                "ssl.keystore.password": SECRET,
                "ssl.key.password": "other",
            },
            "a test",
        )

        trust = Store(StoreKind.JKS, Path("/etc/trust.p12"), None, SECRET, "other", "a test: ssl.truststore")
        key = Store(StoreKind.PKCS12, Path("/etc/key.p12"), None, SECRET, "other", "a test: ssl.keystore")
        assert security.tls == Tls(trust, key)

    def test_inline_pem_needs_no_type(self) -> None:
        security = security_of(
            {
                "security.protocol": "SSL",
                "ssl.truststore.certificates": "CA",
                "ssl.keystore.key": "KEY",
                "ssl.keystore.certificate.chain": "CHAIN",
            },
            "a test",
        )

        assert security.tls
        assert security.tls.trust
        assert security.tls.identity
        assert (security.tls.trust.kind, security.tls.trust.pem) == (StoreKind.PEM, "CA")
        assert (security.tls.identity.kind, security.tls.identity.pem) == (StoreKind.PEM, "KEY\nCHAIN")


class TestTokens:
    def test_a_token_file_needs_no_client(self) -> None:
        security = security_of(oauth("file:///var/run/token", f"{OAUTH};"), "a test")

        assert token_source_of(security) == TokenSource("file:///var/run/token")

    def test_a_client_credentials_grant(self) -> None:
        jaas = f'{OAUTH} clientId="me" clientSecret="{SECRET}" scope="kafka all" ssl.truststore.location="/ca.pem";'
        source = token_source_of(security_of(oauth("https://id.example/token", jaas), "a test"))

        assert (source.client_id, source.client_secret, source.scope) == ("me", SECRET, "kafka all")
        assert source.tls
        assert source.tls.trust
        assert source.tls.trust.location == Path("/ca.pem")

    def test_the_newer_keys_for_a_client(self) -> None:
        """KIP-1139: as settings of their own instead of options of the login module."""
        settings = oauth("https://id.example/token", f"{OAUTH};") | {
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            "sasl.oauthbearer.scope": "kafka",
        }
        source = token_source_of(security_of(settings, "a test"))

        assert (source.client_id, source.client_secret, source.scope) == ("me", SECRET, "kafka")


def oauth(url: str, jaas: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.jaas.config": jaas,
    }


def scram(jaas: str) -> dict[str, str]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            (
                {"security.protocol": "TLS"},
                "security.protocol is 'TLS'; right are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
            ),
            (
                {"security.protocol": "SASL_SSL"},
                r"sasl.mechanism is missing \(Kafka's default is GSSAPI\); right are PLAIN, SCRAM-SHA-256",
            ),
            (
                {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
                "sasl.mechanism is 'GSSAPI'; right are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
            ),
            (
                {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"},
                "ssl.endpoint.identification.algorithm is 'LDAPS'; right are https, or nothing",
            ),
            (
                {"security.protocol": "SSL", "ssl.truststore.type": "BCFKS", "ssl.truststore.location": "x"},
                "ssl.truststore.type is 'BCFKS'; right are PEM, PKCS12, JKS",
            ),
            (
                {"security.protocol": "SSL", "ssl.truststore.type": "JKS", "ssl.truststore.certificates": "x"},
                "ssl.truststore.type is 'JKS'; with ssl.truststore.certificates it must be PEM",
            ),
            (
                {"security.protocol": "SSL", "ssl.truststore.certificates": "x", "ssl.truststore.location": "x"},
                "ssl.truststore.location and ssl.truststore.certificates are both set; one of them must go",
            ),
            ({"security.protocol": "SSL", "ssl.keystore.key": SECRET}, "ssl.keystore.certificate.chain is missing"),
            ({"security.protocol": "SSL", "ssl.keystore.certificate.chain": "x"}, "ssl.keystore.key is missing"),
            (scram(""), "sasl.jaas.config is missing; right is .*ScramLoginModule required username="),
            (scram(f'{SCRAM} username="ann";'), "sasl.jaas.config has no password"),
            (scram(f'{SCRAM} password="{SECRET}";'), "sasl.jaas.config has no username"),
            (scram(f'{SCRAM} username="ann" password="{SECRET}"'), "end with a semicolon"),
            (scram(f'{SCRAM} username="ann" password="{SECRET};'), "a double quote is not closed"),
            (scram(f'{SCRAM} username="ann" password={SECRET}=x;'), "an option is not name=value"),
            (scram(f'{SCRAM} username="ann" {SECRET};'), "an option is not name=value"),
            (scram(f'{SCRAM} username="ann" "password" "=" "{SECRET}";'), "an option is not name=value"),
            (scram(f'ScramLoginModule username="ann" password="{SECRET}";'), "begin with a login module and one of"),
            (scram(f'{SCRAM} username="ann" password="{SECRET}"; {SCRAM};'), "must hold one login module"),
            (oauth("", f"{OAUTH};"), "sasl.oauthbearer.token.endpoint.url is missing; right are https"),
            (oauth("http://id.example", f"{OAUTH};"), "is a http URL; right are https:// and file://"),
            (oauth("token.txt", f"{OAUTH};"), "is a nameless URL; right are https:// and file://"),
            (oauth(f"https://me:{SECRET}@id.example", f"{OAUTH};"), "holds a user; put clientId and clientSecret"),
            (oauth(f"https://id.example/token?key={SECRET}", f"{OAUTH};"), "holds a query or a fragment, which logs"),
            (oauth(f"https://id.example/token#{SECRET}", f"{OAUTH};"), "holds a query or a fragment, which logs"),
            (oauth(f"file:///var/run/token?key={SECRET}", f"{OAUTH};"), "holds a query or a fragment, which logs"),
            (oauth("https://id.example", f'{OAUTH} clientId="me";'), "sasl.jaas.config has no clientSecret"),
        ],
    )
    def test_what_is_wrong_is_named_with_what_would_be_right(self, settings: dict[str, str], said: str) -> None:
        with pytest.raises(InvalidConfiguration, match=rf"^ann\.properties: .*{said}") as refusal:
            security_of(settings, "ann.properties")

        assert SECRET not in f"{refusal.value!r} {refusal.value.reason}"
        assert refusal.value.reason.code == "InvalidConfiguration"


class TestJaas:
    def test_every_way_to_write_it(self) -> None:
        text = f"""
            // a comment
            {SCRAM} /* another "one" */
            username=ann  password = "a\\tb\\"c"
            empty=""
            ;
        """
        assert jaas_options(text, "a test") == {"username": "ann", "password": 'a\tb"c', "empty": ""}

    @given(st.text())
    def test_what_is_quoted_comes_out_as_it_was(self, password: str) -> None:
        quoted = password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        assert jaas_options(f'{SCRAM} username="ann" password="{quoted}";', "a test")["password"] == password

    @given(st.text())
    def test_anything_else_is_refused_or_read_never_an_accident(self, text: str) -> None:
        with contextlib.suppress(InvalidConfiguration):
            assert all(isinstance(value, str) for value in jaas_options(text, "a test").values())


def test_no_secret_shows_where_it_could_be_printed() -> None:
    security = security_of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} username="ann" password="{SECRET}";',
            "ssl.truststore.certificates": f"-----{SECRET}",
            "ssl.keystore.key": f"-----{SECRET}",
            "ssl.keystore.certificate.chain": "x",
            "ssl.keystore.password": SECRET,
            "ssl.key.password": SECRET,
        },
        "a test",
    )
    grant = security_of(oauth("https://id.example", f'{OAUTH} clientId="me" clientSecret="{SECRET}";'), "a test")

    assert SECRET not in f"{security} {security!r} {grant} {grant!r}"
    assert (security.sasl and security.sasl.mechanism) is Mechanism.SCRAM_SHA_512
