"""A Kerberos server (MIT's KDC, Debian's package krb5-kdc) for tests: one realm on a free port of the loopback.

The programs are those of the machine, or they are taken out of Debian's packages into a cache: to install these would
also start a KDC on the machine.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.airflow.harness import free_port, wait_for
from support.servers.programs import unpacked

REALM: Final = "TEST.EXAMPLE"

PACKAGES: Final = (
    "krb5-kdc", "krb5-admin-server", "krb5-user", "libgssrpc4", "libkadm5srv-mit12", "libkadm5clnt-mit12",
    "libkdb5-10", "libverto1", "libverto-libev1", "libverto-glib1", "libev4",
)  # fmt: skip

CLIENTS: Final = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  ticket_lifetime = {life}s
  renew_lifetime = {life}s
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {realm}
"""

SERVER: Final = """\
[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    max_life = {life}s
    max_renewable_life = {life}s
  }}
[dbmodules]
  db_module_dir = {plugins}
  {realm} = {{
    db_library = db2
    database_name = {folder}/principal
  }}
"""


class Kdc:
    """A running KDC. `conf` is the krb5.conf of its clients; a ticket lives `life` seconds."""

    def __init__(self, folder: Path, programs: Path, life: int) -> None:
        self.folder, self.conf, self.life = folder, folder / "krb5.conf", life
        self._programs, port = programs, free_port()
        words = {"realm": REALM, "life": life, "port": port, "folder": folder}
        self.conf.write_text(CLIENTS.format(**words))
        plugins = next(programs.glob("usr/lib/*/krb5/plugins/kdb"))
        (folder / "kdc.conf").write_text(SERVER.format(**words, plugins=plugins))
        libraries = plugins.parents[2]
        self._env = os.environ | {
            "KRB5_CONFIG": str(self.conf),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "LD_LIBRARY_PATH": f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def java_option(self) -> str:
        """With which a JVM finds this KDC."""
        return f"-Djava.security.krb5.conf={self.conf}"

    def start(self) -> None:
        self._run("kdb5_util", "-r", REALM, "create", "-s", "-P", "of-a-test")
        with (self.folder / "log").open("ab") as log:
            command = [str(self._programs / "usr/sbin/krb5kdc"), "-n"]
            self._process = subprocess.Popen(command, env=self._env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.keytab("probe")
        wait_for("the KDC", self._answers, timeout=30, explain=lambda: (self.folder / "log").read_text())

    def keytab(self, *principals: str) -> Path:
        """Make the principals, of this realm, and return a file with their keys."""
        file = self.folder / f"{principals[0].replace('/', '-')}.keytab"
        for name in principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", name)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(file), "-norandkey", name)
        return file

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=20)

    def _answers(self) -> bool:
        command = [str(self._programs / "usr/bin/kinit"), "-c", str(self.folder / "cache"), "-k", "-t"]
        file = str(self.folder / "probe.keytab")
        done = subprocess.run([*command, file, "probe"], env=self._env, capture_output=True, timeout=20, check=False)
        return done.returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        command: Sequence[str] = [str(self._programs / "usr/sbin" / program), *arguments]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"


@contextmanager
def kdc(*, life: int) -> Iterator[Kdc]:
    """A running KDC whose tickets live `life` seconds; ended, and its data removed, at the end."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-kdc-"))
    made = Kdc(folder, programs, life)
    try:
        made.start()
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """A folder with `usr/sbin/krb5kdc` and what it needs; the test is skipped if it cannot be had here."""
    return unpacked("krb5", PACKAGES)
