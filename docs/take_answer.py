"""Takes the answer of the README again: its picture, its figures, and the table between its markers.

python docs/take_answer.py                # plans for two to three minutes on two cores
python docs/take_answer.py --table-only   # the table, from the figures that are there
"""

import json
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "rent_or_buy.py"
FIGURES = ROOT / "docs" / "rent_or_buy.json"
BEGIN, END = "<!-- answer: begin -->", "<!-- answer: end -->"


def table() -> str:
    """The figures that are kept, as the example prints them."""
    return runpy.run_path(str(EXAMPLE))["markdown"](json.loads(FIGURES.read_text(encoding="utf-8")))


def written(page: str) -> str:
    """The page with the table between its markers."""
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def take() -> None:
    """Runs the example and keeps its picture and figures."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, EXAMPLE, "-o", folder], check=True, timeout=1800)
        shutil.copy(Path(folder) / "answer.json", FIGURES)
        shutil.copy(Path(folder) / "answer.png", FIGURES.with_suffix(".png"))


if __name__ == "__main__":
    if "--table-only" not in sys.argv[1:]:
        take()
    readme = ROOT / "README.md"
    readme.write_text(written(readme.read_text(encoding="utf-8")), encoding="utf-8")
