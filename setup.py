"""The compiled library beside what pyproject.toml says: setuptools asks native/build.py for it."""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent / "native"))
from build import build


class BuildNative(build_ext):
    """Builds the library with whatever C++ compiler there is."""

    def build_extension(self, ext: Extension) -> None:
        """Make the library where setuptools wants it."""
        build(Path(self.get_ext_fullpath(ext.name)))


setup(
    ext_modules=[Extension("cdec.core._native", sources=[], py_limited_api=True)],
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
