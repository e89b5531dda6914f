"""Names in certificates, as `X500Principal.getName(RFC2253)` of Java 17 prints them."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import NameAttribute as Part
from cryptography.x509.name import _ASN1Type as Asn1
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from kohort.security import alternative_names, subject_name, validity
from kohort.security.x500 import MAX_SUBJECT_BYTES

KEY = ec.generate_private_key(ec.SECP256R1())
START = datetime(2026, 1, 1, tzinfo=UTC)


def typed(kind: ObjectIdentifier, value: str, asn1: Asn1) -> Part:
    return Part(kind, value, _type=asn1, _validate=False)


def certificate(
    *parts: list[Part],
    names: tuple[str, ...] = (),
    since: datetime = START,
    until: datetime = START + timedelta(days=1),
) -> bytes:
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([Part(NameOID.COMMON_NAME, "issuer")]),
        subject_name=x509.Name([x509.RelativeDistinguishedName(part) for part in parts]),
        public_key=KEY.public_key(),
        serial_number=1,
        not_valid_before=since,
        not_valid_after=until,
    )
    if names:
        alternative = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(alternative, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


CN, ORGANIZATION, UNIT = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (
            [
                [Part(NameOID.COUNTRY_NAME, "US")],
                [Part(ORGANIZATION, "Acme, Inc.")],
                [Part(UNIT, "b")],
                [Part(CN, "a")],
            ],
            r"CN=a,OU=b,O=Acme\, Inc.,C=US",
        ),
        (
            [[Part(NameOID.EMAIL_ADDRESS, "a@b.c")], [Part(CN, 'x=y+z<>#;"\\')]],
            'CN=x\\=y\\+z\\<\\>\\#\\;\\"\\\\,1.2.840.113549.1.9.1=#16056140622e63',
        ),
        (
            [[Part(CN, " lead")], [Part(NameOID.USER_ID, "u"), Part(CN, "multi")]],
            r"CN=multi+UID=u,CN=\ lead",
        ),
        ([[Part(CN, " ")], [Part(ORGANIZATION, "\r x \r")]], "O=\\\r\\ x\\ \\\r,CN=\\ "),
        (
            [[Part(CN, "Žluť 日本 😀")], [Part(NameOID.TITLE, "t")]],
            "2.5.4.12=#0c0174,CN=Žluť 日本 😀",
        ),
        ([[Part(ObjectIdentifier("1.2.3.400.50000"), "odd")]], "1.2.3.400.50000=#0c036f6464"),
        ([[Part(ObjectIdentifier("2.999.3"), "odd")]], "2.999.3=#0c036f6464"),
        (
            [[typed(UNIT, "tele", Asn1.T61String)], [typed(UNIT, "num", Asn1.NumericString)]],
            "OU=#12036e756d,OU=tele",
        ),
        (
            [[typed(CN, "bé", Asn1.BMPString)], [typed(CN, "u", Asn1.UniversalString)]],
            "CN=#1c0400000075,CN=\\00b\\00�",
        ),
        ([], ""),
    ],
)
def test_a_subject_looks_as_in_java(parts: list[list[Part]], name: str) -> None:
    assert subject_name(certificate(*parts)) == name


def test_a_subject_of_very_many_parts_is_refused() -> None:
    parts = [[Part(UNIT, f"{n:06}")] for n in range(4_000)]
    assert subject_name(certificate(*parts[:800])).count("OU=") == 800
    with pytest.raises(ValueError, match=f"more than {MAX_SUBJECT_BYTES} bytes"):
        subject_name(certificate(*parts))


@pytest.mark.parametrize("year", [1950, 1969, 1999, 2000, 2049, 2050, 9999])
def test_the_validity_of_a_certificate_is_read(year: int) -> None:
    since, until = datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert validity(certificate(since=since, until=until)) == (since, until)


def test_alternative_names_of_a_certificate_are_read() -> None:
    first, both, none = (certificate(names=names) for names in (("a.test",), ("a.test", "b"), ()))
    assert alternative_names(first) < alternative_names(both)
    assert not alternative_names(none)


@given(st.binary(max_size=40), st.integers(min_value=0, max_value=400))
def test_bytes_that_are_no_certificate_are_refused(noise: bytes, cut: int) -> None:
    for data in (noise, certificate([Part(CN, "a")])[:cut]):
        for read in (subject_name, validity):
            with suppress(ValueError):
                read(data)
