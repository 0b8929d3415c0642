"""What findings are computed with: a target, a draft, their device, and folders of data."""

from __future__ import annotations

import lzma
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import orjson

from cdec.core.errors import InputMissingError
from cdec.data.assets import embedded_model_path

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel

EMBEDDED = "embedded"
_WEIGHTS = "model.safetensors"
_LAYERS = "num_hidden_layers"


@dataclass(frozen=True)
class Laboratory:
    """Models and data.

    Attributes:
        model: Folder or hub name of the target; "embedded" is the one that cdec ships.
        draft: The same of the draft.
        device: As in ``load_model``. dtype: as in ``load_model``; None is its default.
        data: Folder of the data's folders; None where there is none.
        tasks: Folder of task models, one a folder; None where there is none.
        reward: Folder or hub name of a classifier of prompt and text; None for none.
        judge: The same of another one, which judges what the first was followed by.
        all_data: Whether findings take all data that they have, in the place of some.

    Raises:
        InputMissingError: `data` or `tasks` is no folder.
    """

    model: str = EMBEDDED
    draft: str = EMBEDDED
    device: str = "cpu"
    dtype: str | None = None
    data: Path | None = None
    tasks: Path | None = None
    reward: str | None = None
    judge: str | None = None
    all_data: bool = False

    def __post_init__(self) -> None:
        """Require the folders."""
        made = "give the folder that python -m tools.training.tasks wrote with `tasks`"
        held = "give the folder that holds commongen, webquestions and so on with `data`"
        for folder, what, hint in ((self.data, "data", held), (self.tasks, "task models", made)):
            if folder is not None and not folder.is_dir():
                message = f"no folder of {what} at {folder}"
                raise InputMissingError(message, hint=hint, path=str(folder))

    @property
    def model_path(self) -> str:
        """Folder or hub name of the target."""
        return _path(self.model, "target")

    def target(self) -> LanguageModel:
        """Return the target; it is loaded once a process, where torch has one thread from then on.

        Threads that wait for each other on busy cores take ten times the processor time.
        """
        one_thread()
        return _load(self.model_path, self.device, self.dtype)

    def proposer(self) -> LanguageModel:
        """Return the draft; as ``target``."""
        one_thread()
        return _load(_path(self.draft, "draft"), self.device, self.dtype)

    def task(self, name: str) -> LanguageModel | None:
        """Return the model of a task, loaded once a process; None where there is none.

        Args:
            name: One of ``tasks.TASKS``, whose prompts stand there.
        """
        path = self.task_path(name)
        return None if path is None else _load(str(path), self.device, self.dtype)

    def task_weights(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return by task the beginning of the SHA-256 of its model's weights; None for no model."""
        return {name: _digest(self.task_path(name)) for name in names}

    def task_path(self, name: str) -> Path | None:
        """Return the folder of the model of a task; None where there is none."""
        if self.tasks is None:
            return None
        path = self.tasks / name
        return path if (path / _WEIGHTS).is_file() else None

    @property
    def layers(self) -> int | None:
        """Layers of the target; None where it is no folder that says so."""
        config = Path(self.model_path) / "config.json"
        return orjson.loads(config.read_bytes()).get(_LAYERS) if config.is_file() else None

    def first_layers(self, kept: int) -> LanguageModel:
        """Return the target without the layers beyond the first ``kept``, as a draft of it."""
        return _load_shallow(self.model_path, kept, self.device, self.dtype)

    def seconds(self) -> float:
        """Return a clock: process time on the CPU, elapsed time of finished work elsewhere."""
        if self.device == "cpu":
            return time.process_time()
        import torch

        torch.cuda.synchronize()
        return time.perf_counter()

    def missing(self, needs: tuple[str, ...]) -> list[str]:
        """Return the folders of data that are needed and not there."""
        return [name for name in needs if self.data is None or not (self.data / name).is_dir()]

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of an xz-compressed JSONL file of the data.

        Args:
            name: Of the file, below the folder of data.
        """
        return read_jsonl(self._file(name))

    def lines(self, name: str) -> list[str]:
        """Return the lines of an xz-compressed text of the data; the name as in ``rows``."""
        with lzma.open(self._file(name), "rt", encoding="utf-8") as text:
            return text.read().split("\n")[:-1]

    def _file(self, name: str) -> Path:
        """Return the path of a file of the data.

        Raises:
            InputMissingError: It is not there.
        """
        assert self.data is not None
        if not (path := self.data / name).is_file():
            raise InputMissingError(
                f"no {name} in {self.data}",
                hint="give a folder that has this file with `data`",
                path=str(path),
            )
        return path


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of an xz-compressed JSONL file."""
    with lzma.open(path) as lines:
        for line in lines:
            yield orjson.loads(line)


def one_thread() -> None:
    """Let torch compute on one thread, so that processes beside each other do not wait."""
    import torch

    torch.set_num_threads(1)


def _path(name: str, embedded: str) -> str:
    return str(embedded_model_path(embedded)) if name == EMBEDDED else name


@cache
def _load_shallow(path: str, kept: int, device: str, dtype: str | None) -> LanguageModel:
    from cdec.core.models.loading import load_model

    with TemporaryDirectory() as folder:
        for file in Path(path).iterdir():
            (Path(folder) / file.name).symlink_to(file.resolve())
        config = Path(folder) / "config.json"
        whole = orjson.loads(config.read_bytes())
        config.unlink()
        config.write_bytes(orjson.dumps({**whole, _LAYERS: kept}))
        return load_model(folder, device=device, dtype=dtype)


@cache
def _load(path: str, device: str, dtype: str | None) -> LanguageModel:
    from cdec.core.models.loading import load_model

    return load_model(path, device=device, dtype=dtype)


@cache
def _digest(folder: Path | None) -> str | None:
    return None if folder is None else sha256((folder / _WEIGHTS).read_bytes()).hexdigest()[:12]
