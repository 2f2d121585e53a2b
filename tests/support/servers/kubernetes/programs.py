"""Kubernetes' own servers, and Helm, built from their Go modules into a cache outside the checkout.

The versions are pinned here, and Go checks each module against the public checksum database. A first build takes half
an hour on two cores; later ones find the programs.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

VERSION = "1.34.2"
BUILDS_WITHIN = 5400.0

_STAMP = "k8s.io/component-base/version"
_FLAGS = (
    "-trimpath",
    "-gcflags=all=-dwarf=false",
    f"-ldflags=-s -w -X {_STAMP}.gitVersion=v{VERSION} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=34",
)


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module and the programs in it.

    Args:
        go: the least version of Go that it wants.
        programs: name of a program -> its package.
        main: packages of the module of which a program is made that is no package of it; the first has `Run`.
    """

    path: str
    version: str
    go: str
    programs: Mapping[str, str]
    main: tuple[str, ...] = ()

    def build_file(self) -> str:
        """The go.mod of a module that requires this one, with the libraries of Kubernetes of one version."""
        libraries = "\n".join(f"replace {name} => {name} v0.{VERSION.partition('.')[2]}" for name in _libraries())
        return f"module built\ngo {self.go}\nrequire {self.path} v{self.version}\n{libraries}\n"

    def source(self) -> str:
        """The Go file of the module that is built: a program, or what keeps `go mod tidy` from forgetting packages."""
        if self.main:
            first, *others = (f"{self.path}/{package}" for package in self.main)
            lines = "\n".join(f'import _ "{package}"' for package in others)
            return f'package main\n\nimport "{first}"\n{lines}\n\nfunc main() {{ {first.rpartition("/")[2]}.Run() }}\n'
        lines = "\n".join(f'import _ "{package}"' for package in self.programs.values())
        return f"//go:build tools\n\npackage tools\n\n{lines}\n"


KUBERNETES = Module(
    "k8s.io/kubernetes",
    VERSION,
    "1.24.0",
    {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    },
)
NODE = Module(
    KUBERNETES.path,
    VERSION,
    KUBERNETES.go,
    {"kubelet": "k8s.io/kubernetes/cmd/kubelet", "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy"},
)
DNS = Module(
    "github.com/coredns/coredns",
    "1.13.1",
    "1.24.0",
    {"coredns": "."},
    main=("coremain", "plugin/errors", "plugin/kubernetes"),
)
"""CoreDNS with what the names of a cluster need: with all of its plugins it has the clients of every cloud."""

HELM = Module("helm.sh/helm/v3", "3.19.5", "1.24.0", {"helm": "helm.sh/helm/v3/cmd/helm"})


def programs(module: Module) -> dict[str, str]:
    """Name -> path of the module's programs; skips the test if they cannot be built here."""
    folder = _cache() / f"{module.path.replace('/', '-')}-{_digest(module)}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((folder / name).is_file() for name in module.programs):
            _build(module, folder)
    return {name: str(folder / name) for name in module.programs}


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamwarden-tests"


def _digest(module: Module) -> str:
    return hashlib.sha256(repr((module.path, module.version, VERSION, _FLAGS)).encode()).hexdigest()[:12]


def _build(module: Module, folder: Path) -> None:
    work = folder / "build"
    work.mkdir(exist_ok=True)
    (work / "go.mod").write_text(module.build_file())
    (work / "imports.go").write_text(module.source())
    _go(work, "mod", "tidy")
    for name, package in module.programs.items():
        if not (folder / name).is_file():
            _go(work, "build", *_FLAGS, "-o", str(folder / name), package)


def _libraries() -> list[str]:
    """The modules that Kubernetes' own go.mod takes from its source tree; the module proxy has each by itself."""
    told = _go(Path.home(), "mod", "download", "-json", f"{KUBERNETES.path}@v{VERSION}")
    return re.findall(r"^\t(k8s\.io/\S+) => \./staging/", Path(json.loads(told)["GoMod"]).read_text(), re.MULTILINE)


def _go(folder: Path, *arguments: str) -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed, with which Kubernetes' servers and Helm are built")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        [go, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILDS_WITHIN,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"go {' '.join(arguments[:2])} failed: {done.stderr.strip()[-400:]}")
    return done.stdout
