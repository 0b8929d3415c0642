"""How a model is made to think: chosen from its template and its special tokens, or told."""

from __future__ import annotations

from typing import Any

import pytest

from cdec.core.combine.free_text import FreeText
from cdec.core.combine.thinking import TAGS, ModelThinking, Thinking
from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.models.chat_models import END_THINK, THINK, byte_tokenizer

LINES = "{{ '<think>\\n' + m.reasoning + '\\n</think>\\n\\n' + m.content }}"
SWITCHED = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"


class Model(TabularModel):
    """A model of a template; it is not asked for scores."""

    def __init__(self, template: str = "", special: tuple[str, ...] = ("<|end|>",)) -> None:
        vocabulary = Vocabulary.from_tokenizer(byte_tokenizer(None, special))
        super().__init__(lambda prefix: [], vocabulary)
        self.chat_template = template


THINKS = ("<|end|>", "<|start|>", "<think>", "</think>")
HARMONY = ("<|return|>", "<|start|>", "<|end|>", "<|channel|>", "<|message|>")


def made(amount: Any, model: Model, tags: tuple[str, str] | None = None) -> ModelThinking:
    return Thinking(amount, tags).of(model)


def written(thinking: ModelThinking, prompt: str, *, is_chat: bool = True) -> str:
    """Return what a prompt becomes, special tokens in their words."""
    vocabulary = thinking.vocabulary
    words = {token: word for word, token in vocabulary.special_tokens.items()}
    ids = thinking.prompt(vocabulary.encode([prompt])[0], is_chat=is_chat)
    return "".join(words.get(t) or vocabulary.decode([t]).decode() for t in ids)


@pytest.mark.parametrize(
    ("template", "special", "family"),
    [
        (LINES, ("<|end|>",), "think"),
        ("", THINKS, "think"),
        ("", ("</s>", "[THINK]", "[/THINK]"), "mistral"),
        ("", HARMONY, "harmony"),
        ("x<seed:think>y</seed:think>", ("<|end|>",), "seed"),
    ],
)
def test_the_family_is_told_by_the_template_or_by_special_tokens(
    template: str, special: tuple[str, ...], family: str
) -> None:
    assert made(5, Model(template, special)).tags is TAGS[family]


def test_a_model_that_does_not_tell_is_told() -> None:
    for amount in ("on", "off", 5):
        with pytest.raises(UsageError, match="how it writes its thinking"):
            made(amount, Model("{{ 'I am thinking' }}"))
        thinking = made(amount, Model(), ("<a>", "</a>"))
        assert thinking.tags is not None and thinking.tags.ends == ("</a>",)


def test_a_model_whose_texts_begin_anew_does_not_think_at_the_end_of_its_prompt() -> None:
    model = Model("", THINKS)
    model.continues_prompt = False
    with pytest.raises(UsageError, match="begin anew"):
        made(5, model)


@pytest.mark.parametrize(
    ("amount", "tags"), [(-1, None), ("yes", None), (True, None), (3, ("a", "")), (3, ("a",))]
)
def test_what_is_none_is_refused(amount: Any, tags: Any) -> None:
    with pytest.raises(UsageError):
        Thinking(amount, tags)


def test_a_prompt_begins_the_thinking_where_the_template_does_not() -> None:
    thinking = made(5, Model(LINES, THINKS))
    assert written(thinking, "hi") == "hi<think>\n"
    begun = [*thinking.vocabulary.encode(["hi"])[0], THINK, *thinking.vocabulary.encode(["\n"])[0]]
    assert thinking.prompt(begun, is_chat=True) == begun
    assert written(made("on", Model("", HARMONY)), "hi") == "hi<|channel|>analysis<|message|>"


def test_words_that_other_tokens_spell_do_not_begin_the_thinking() -> None:
    assert written(made(5, Model("", THINKS)), "hi<think>") == "hi<think><think>"


def test_thinking_is_left_out_by_the_switch_or_by_the_end_of_the_prompt() -> None:
    switched = made("off", Model(SWITCHED, THINKS))
    assert switched.arguments == {"enable_thinking": False}
    assert written(switched, "hi") == "hi"
    assert made("on", Model(SWITCHED, THINKS)).arguments == {"enable_thinking": True}
    alone = made("off", Model("{% if thinking %}x{% endif %}"))
    assert (alone.arguments, alone.tags) == ({"thinking": False}, None)
    assert written(alone, "hi") == "hi"
    without = made("off", Model(LINES, THINKS))
    assert without.arguments == {}
    assert written(without, "hi") == "hi<think>\n\n</think>\n\n"
    assert written(without, "hi", is_chat=False) == "hi"
    assert written(made("off", Model("", HARMONY)), "hi") == "hi<|channel|>final<|message|>"


def test_a_template_that_begins_the_thinking_in_any_case_has_it_ended() -> None:
    thinking = made("off", Model(LINES, THINKS))
    ids = [*thinking.vocabulary.encode(["hi"])[0], THINK, *thinking.vocabulary.encode(["\n"])[0]]
    more = thinking.prompt(ids, is_chat=True)[len(ids) :]
    assert more == [END_THINK, *thinking.vocabulary.encode(["\n\n"])[0]]


def test_the_end_is_awaited_with_the_line_breaks_of_the_template() -> None:
    thinking = made(5, Model(LINES, THINKS))
    assert thinking.free_text(None) == FreeText(("</think>\n\n",), budget=5)
    assert made("on", Model("", THINKS)).free_text(None) == FreeText(("</think>",))
    then = FreeText(between=("<a>", "</a>"))
    assert thinking.free_text(then).thinking == FreeText(("</think>",), budget=5)
    final = "<|channel|>final<|message|>"
    assert made(5, Model("", HARMONY)).free_text(None).after == (
        f"<|end|><|start|>assistant{final}",
        final,
    )


def test_a_chat_that_switches_its_thinking_off_does_not_think() -> None:
    thinking = made(5, Model(SWITCHED, THINKS))
    assert thinking.applies({}) and thinking.applies({"enable_thinking": True})
    assert not thinking.applies({"enable_thinking": False})
    assert not made("off", Model(SWITCHED, THINKS)).applies({})
