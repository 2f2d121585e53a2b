"""Writes every generated file of a project that differs: `python -m reference_pages [PROJECT]`."""

import sys
from pathlib import Path

from reference_pages.pages import PAGES

project = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
for page in PAGES:
    file, text = project / page.path, page.render(project)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
        print(f"wrote {page.path}")
