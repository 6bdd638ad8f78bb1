"""Who is let in, also while tokens and certificates are being replaced."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest

from kafka_recovery.kube.machinery.credentials import BadCredentials, TlsFiles, TokenFile
from testbed.certificates import Authority

TOKEN = "a-token-of-twenty-four-c"
OTHER = "another-token-that-is-new"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN} "])
def test_who_knows_the_token_is_let_in(file: Path, given: str) -> None:
    assert TokenFile(file).admits(given)


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer \udcff\x00"],
    ids=repr,
)
def test_nobody_else_is(file: Path, given: str) -> None:
    assert not TokenFile(file).admits(given)


def test_during_a_rotation_both_count_and_after_it_the_new_one(file: Path) -> None:
    tokens = TokenFile(file)
    file.write_text(f"{TOKEN}\n{OTHER}\n")
    assert tokens.admits(f"Bearer {TOKEN}")
    assert tokens.admits(f"Bearer {OTHER}")

    file.write_text(OTHER)
    assert not tokens.admits(f"Bearer {TOKEN}")
    assert tokens.admits(f"Bearer {OTHER}")


@pytest.mark.parametrize("held", ["", "\n \n", "short", f"{TOKEN}\nshort"], ids=repr)
def test_a_file_without_good_tokens_is_refused(file: Path, held: str) -> None:
    file.write_text(held)
    with pytest.raises(BadCredentials, match="at least 16 characters") as refused:
        TokenFile(file).check()

    assert "short" not in str(refused.value)


def test_a_file_that_goes_away_lets_nobody_in_and_says_so(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.unlink()

    assert not TokenFile(file).admits(f"Bearer {TOKEN}")
    assert not TokenFile(file).admits("Bearer ")
    assert "can't be read: No such file or directory" in caplog.text


def test_a_bad_file_is_told_once_however_many_connect_and_again_when_it_is_bad_anew(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = TokenFile(file)
    for held in ("short", TOKEN, "short", ""):
        file.write_text(held)
        for _ in range(3):
            tokens.admits(f"Bearer {TOKEN}")
    file.unlink()
    tokens.admits("")

    said = [record.getMessage() for record in caplog.records]
    too_short, gone = f"nobody is let in: {file} must hold a token of at least 16 characters a line", "No such file"
    assert said[:2] == [too_short, too_short]
    assert (len(said), gone in said[2]) == (3, True)


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(BadCredentials, match="longer than"):
        TokenFile(Path("/dev/zero")).check()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("ca"))


def test_replaced_certificates_serve_the_next_connection(authority: Authority, tmp_path: Path) -> None:
    first, second = authority.identity("one"), authority.identity("two")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    files = TlsFiles(cert, key, authority.certificate)
    before = files.context()
    assert files.context() is before
    assert before.verify_mode is ssl.CERT_REQUIRED

    cert.write_bytes(second.certificate.read_bytes())
    key.write_bytes(second.key.read_bytes())

    assert files.context() is not before


def test_half_a_rotation_is_no_reason_to_go_deaf(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issued = authority.identity("one")
    cert = tmp_path / "tls.crt"
    cert.write_bytes(issued.certificate.read_bytes())
    files = TlsFiles(cert, issued.key, authority.certificate)
    before = files.context()
    for held in ("-----BEGIN CERTIFICATE-----\n", issued.certificate.read_text(), "-----BEGIN CERTIFICATE-----\n"):
        cert.write_text(held)
        with caplog.at_level(logging.WARNING):
            assert {files.context_or_last() for _ in range(3)} == {before}
    assert caplog.text.count("the certificates of before are used") == 2, "once each time that it is bad"


def test_files_that_do_not_belong_together_are_refused(authority: Authority, tmp_path: Path) -> None:
    one, two = authority.identity("one"), authority.identity("two")
    with pytest.raises(BadCredentials, match="can't be used together"):
        TlsFiles(one.certificate, two.key).context()
    with pytest.raises(BadCredentials, match="can't be read"):
        TlsFiles(one.certificate, tmp_path / "nothing").context()
