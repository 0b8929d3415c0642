"""The hub of models: asked once and shortly, or not at all."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from cdec.core.errors import ModelError
from cdec.core.models.loading import load_model
from cdec.core.tokens.hub import ANSWERS_WITHIN, hub_away
from cdec.core.tokens.vocabulary import Vocabulary


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub on a port at which nobody listens; no variable forbids to ask it."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        yield endpoint


def test_a_hub_that_answers_is_not_away(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub_away() is None


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_a_variable_forbids_to_ask(variable: str) -> None:
    away = hub_away({variable: "1"})
    assert away is not None and variable in away.reason and f"unset {variable}" in away.hint


def test_a_proxy_is_asked_in_the_hubs_place(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    monkeypatch.setenv("https_proxy", closed)
    assert hub_away() is not None
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{server.getsockname()[1]}")
        assert hub_away() is None


def test_models_and_tokenizers_are_refused_at_once_where_the_hub_is_away(
    closed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for load in (Vocabulary.from_tokenizer, load_model):
        started = time.monotonic()
        with pytest.raises(ModelError, match="cannot be reached") as caught:
            load("nobody/nothing-at-all")
        # The wait, and the import of the libraries, with room for a busy machine.
        assert time.monotonic() - started < ANSWERS_WITHIN + 20
        assert caught.value.hint is not None
        assert "HF_HUB_OFFLINE" in caught.value.hint and "local folder" in caught.value.hint
    assert "Retrying" not in "".join(capfd.readouterr())


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    import cdec.core

    assert cdec.core.__version__ == version("cdec")
