"""The one thing that pyproject.toml can't say: rules/ ships inside the package, as attribution/bundled_rules."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRules(build_py):
    """Copies rules/ into the wheel. An editable install reads the checkout's own."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        # build/ outlives a build: a rule that is gone must not come back from there.
        shutil.rmtree(self._inside(), ignore_errors=True)
        for source, target in self._rule_files():
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(source), str(target), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        rules = [] if self.editable_mode else [str(target) for _, target in self._rule_files()]
        return [*super().get_outputs(include_bytecode), *rules]

    def _inside(self) -> Path:
        return Path(self.build_lib) / "attribution" / "bundled_rules"

    def _rule_files(self) -> list[tuple[Path, Path]]:
        inside = self._inside()
        files = sorted(p for p in Path("rules").rglob("*") if p.is_file() and p.suffix != ".pyc")
        return [(p, inside / p.relative_to("rules")) for p in files]


setup(cmdclass={"build_py": BuildWithRules})
