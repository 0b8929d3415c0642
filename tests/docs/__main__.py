"""``python -m tests.docs PAGE ...``: write what is printed now into README, docs and notebooks."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.notebooks import printed, update
from tests.docs.pages import differences, updated
from tests.docs.shell import Shell

with tempfile.TemporaryDirectory() as folder, Shell(Path(folder) / "server") as shell:
    for number, name in enumerate(sys.argv[1:]):
        page, work = Path(name), Path(folder) / str(number)
        work.mkdir()
        if page.suffix == ".ipynb":
            update(page, printed(page, shell, work))
            continue
        found = differences(page, shell, work)
        page.write_text(updated(page.read_text(), found))
        for difference in found:
            print(difference)
