"""The pages that tell a person what to type, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import yaml

from support.airflow.harness import REPOSITORY

_PROGRAMS = ("airflow ", "docker ", "streamwarden ")

PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])


@dataclass(frozen=True)
class Page:
    """A page's blocks of code, indented or fenced, and its fenced YAML by the path in its first line."""

    text: str

    def lines(self) -> list[str]:
        """Of all blocks; a command that goes on in the next line, after a backslash or within quotes, is one line."""
        fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL))
        indented = "\n".join(re.findall(r"(?:^|(?<=\n\n))((?:    .*\n)+)", self.text))
        lines: list[str] = []
        for line in f"{fenced}\n{indented}".replace("\\\n", " ").splitlines():
            if lines and lines[-1].startswith(_PROGRAMS) and lines[-1].count("'") % 2:
                lines[-1] += f" {line.strip()}"
            else:
                lines.append(line.strip())
        return lines

    def section(self, number: int) -> Page:
        """The section `## NUMBER. …`."""
        found = re.search(rf"^## {number}\. .*?(?=^## |\Z)", self.text, re.MULTILINE | re.DOTALL)
        assert found is not None
        return Page(found[0])

    def blocks(self) -> list[str]:
        """The indented blocks, each as a person copies it into a shell."""
        return [dedent(block) for block in re.findall(r"(?:^|(?<=\n\n))((?:    .*\n)+)", self.text)]

    def commands(self, program: str) -> list[str]:
        """Lines that run `program`, also in a container; of several commands in a line, each."""
        parts = [part.strip() for line in self.lines() for part in re.split(r"&&|; ", line)]
        parts += re.findall(r"`(docker compose exec .+?)`", self.text)
        inner = [re.sub(r"^docker compose exec \S+ ", "", part) for part in parts]
        return [part for part in inner if re.match(rf"(\S*/)?{program} [\w-]", part)]

    def files(self) -> list[tuple[str, Any]]:
        """Path and content of each fenced YAML file."""
        found = re.findall(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
        return [(path, yaml.safe_load(content)) for path, content in found]

    def jobs(self) -> list[tuple[str, str]]:
        """Path and text of each fenced Python file."""
        return re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)
