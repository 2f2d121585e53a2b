"""An authority of one's own and the certificates that it gives, as PEM files: for servers of the loopback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """`certificate` is what those hold who trust it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        made = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(made)

    def issue(self, name: str, *also: str) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1 and other addresses and names, and its key, which is not encrypted (PKCS #8):
        their files."""
        key = ec.generate_private_key(ec.SECP256R1())
        place = x509.SubjectAlternativeName([_place(place) for place in ("127.0.0.1", *also)])
        certificate, secret = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(self._signed(_named(name), key, place))
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, secret

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        )
        return builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)


def _place(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
