"""`einc generate`: the tokens of transformers from its own files, texts as they are made,
and every input that does not fit."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.torch import load_file, save_file
from test_oracles import spiced, zoo

import einc
from einc.driver import compiling, front
from einc.driver.cli import main
from einc.driver.commands.configs import agreed, beside
from einc.driver.commands.prompts import Reader, coder
from einc.driver.decoding.vocabulary import Spoken
from einc.driver.front import written_map
from einc.errors.report import EincError
from einc.ir.programs import TypedProgram

__all__ = ["zoo"]
VOCABULARY, HEADS, GROUPS = 300, 4, 2
SPEC = """index n : batch(B)
index t, s : time(T)
index p : time(C)
index v : vocab(0..V-1)
index f : feature(D)
input w_{n t} : int
weight E_v^f, U_f^v, P_p^f
x_{n t}^f = E_{w_{n t}}^f + P_{min(t, C)}^f
mask L_{n t s} : s ≤ t
L_{n t s} = x_{n t}^f x_{n s f}
output O_{n t}^v = Σ_s softmax_s(L_{n t s}) x_{n s}^f U_f^v
"""
TEXTS = [[5, 9, 2, 7], [1, 2], [8, 8, 3, 4]]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small spec with its weights, under its own names and one of them under another."""
    room = tmp_path_factory.mktemp("texts")
    random = torch.Generator().manual_seed(0)
    shapes = {"E": (VOCABULARY, 8), "U": (8, VOCABULARY), "P": (40, 8)}
    weights = {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}
    (room / "small.ein").write_text(SPEC, encoding="utf-8")
    (room / "apart").mkdir()
    save_file(weights, room / "small.safetensors")
    save_file({"E": weights["E"]}, room / "apart" / "1.safetensors")
    save_file({"U": weights["U"], "P": weights["P"]}, room / "apart" / "2.safetensors")
    save_file({"E": weights["E"], "out": weights["U"].T.contiguous(), "P": weights["P"]}, room / "other.safetensors")
    save_file({**weights, "E": torch.zeros(VOCABULARY, 8, dtype=torch.long)}, room / "whole.safetensors")
    save_file({"E": weights["E"][:50], "U": weights["U"][:, :50].contiguous(), "P": weights["P"]},
              room / "few.safetensors")
    (room / "map.toml").write_text('E = "E"\nP = "P"\nU = { from = "out", as = "v f -> f v" }\n', encoding="utf-8")
    (room / "empty").mkdir()
    return room


@pytest.fixture(scope="module", autouse=True)
def once() -> Iterator[None]:
    """A spec is compiled once for the same options, by whatever way."""
    made, built = dict[str, front.Compiled](), compiling.built

    def cached(program: TypedProgram, *args: Any, **options: Any) -> front.Compiled:
        key = repr((program.source, program.equations, args, sorted(options.items())))
        return made[key] if key in made else made.setdefault(key, built(program, *args, **options))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "built", cached)
        yield


def said(room: Path, *args: str, status: int = 0, weights: str | None = "small.safetensors",
         spec: str = "small.ein") -> Result:
    """What the command says; it ends with the status, and without a traceback."""
    path = ["--weights", str(room / weights)] if weights is not None else []
    result = CliRunner().invoke(main, ["generate", str(room / spec) if spec.endswith(".ein") else spec, *path, *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code == status, result.output
    return result


def lists(texts: list[list[int]]) -> list[str]:
    return [arg for text in texts for arg in ("--ids", ",".join(map(str, text)))]


def rows(result: Result) -> list[list[int]]:
    return [[int(n) for n in line.split()] for line in result.stdout.splitlines()]


# the models of transformers


@pytest.fixture(scope="module")
def llama(zoo: Any) -> Any:
    return spiced(zoo.LlamaForCausalLM(zoo.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=HEADS,
        num_key_value_heads=GROUPS, head_dim=8, bos_token_id=0, eos_token_id=0)))


@pytest.fixture(scope="module")
def gpt2(zoo: Any) -> Any:
    return spiced(zoo.GPT2LMHeadModel(zoo.GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=24, n_layer=2, n_head=HEADS, bos_token_id=0, eos_token_id=0)),
        biases=0.3)


def theirs(model: Any, ids: list[int], steps: int) -> list[int]:
    """The tokens that the model's own `generate()` adds."""
    text = torch.tensor([ids])
    made = model.generate(text, attention_mask=torch.ones_like(text), max_new_tokens=steps, do_sample=False,
                          pad_token_id=0,
                          eos_token_id=None)
    return [int(n) for n in made[0, len(ids) :]]


@pytest.mark.parametrize("name", ["llama_lm", "decoder_lm"])
def test_the_tokens_of_transformers_from_its_file(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    """Texts of two lengths, in the order given; and the logits of every step."""
    model = request.getfixturevalue({"llama_lm": "llama", "decoder_lm": "gpt2"}[name])
    model.save_pretrained(tmp_path)
    sizes = {"H": HEADS, "G": GROUPS} if name == "llama_lm" else {"H": HEADS}
    told = ["--sizes", ",".join(f"{key}={n}" for key, n in sizes.items())]
    result = said(tmp_path, *told, "--count", "9", *lists(TEXTS), spec=name, weights="model.safetensors")
    assert rows(result) == [theirs(model, text, 9) for text in TEXTS]
    made = einc.compile(name, plan="serve")
    ids = torch.tensor([TEXTS[0], TEXTS[2]])
    weights = einc.load_weights(made, load_file(tmp_path / "model.safetensors"), **sizes)
    text = einc.generate(made, ids, 9, given=weights)
    with torch.no_grad():
        want = model(text, use_cache=False).logits
    spoken = Spoken(made, weights)
    assert spoken.prefill is not None
    logits, cache = spoken.prefill(ids)
    torch.testing.assert_close(logits, want[:, 3:4], atol=1e-4, rtol=1e-4)
    for at in range(4, text.shape[1]):
        torch.testing.assert_close(spoken(cache, text[:, at : at + 1]), want[:, at : at + 1], atol=1e-4, rtol=1e-4)


# what is drawn


DRAWS = [{}, {"temperature": 1.0}, {"temperature": 0.6, "top_k": 5}, {"temperature": 1.3, "top_p": 0.8, "seed": 4}]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("options", DRAWS)
@pytest.mark.parametrize("piece", [3, 1024])
def test_a_cache_changes_no_token(room: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any],
                                  piece: int) -> None:
    """Nor do the pieces in which a long text is read, nor the texts that stand beside one."""
    monkeypatch.setattr(importlib.import_module("einc.driver.decoding.generate"), "_PIECE", piece)
    made, plain = compiled(room)
    weights, ids = load_file(room / "small.safetensors"), torch.randint(0, VOCABULARY, (3, 11))
    want = einc.generate(plain, ids, 12, given=weights, **options)
    assert torch.equal(einc.generate(made, ids, 12, given=weights, **options), want)
    assert torch.equal(einc.generate(made, ids[0], 12, given=weights, **options), want[0])
    assert [int(n) for n in einc.stream(made, ids[0], 12, given=weights, **options)] == want[0, 11:].tolist()
    args = [arg for key, value in options.items() for arg in (f"--{key.replace('_', '-')}", str(value))]
    texts = [ids[0].tolist(), [1, 2], ids[1].tolist()]
    alone = [int(n) for n in einc.stream(plain, ids[:2], 12, given=weights, **options) for n in n[:1]]
    assert rows(said(room, *args, "--count", "12", *lists(texts)))[0] == alone


def test_a_compiled_spec_asks_for_its_weights(room: Path) -> None:
    for made in compiled(room):
        with pytest.raises(TypeError, match="'E'"):
            einc.generate(made, torch.tensor(TEXTS[0]), 2)
        with pytest.raises(EincError, match="has no logits"):
            einc.generate(einc.compile("index t : time(T)\ninput x_t\noutput y_t = x_t"), torch.tensor(TEXTS[0]), 2,
                          given={})


def compiled(room: Path) -> tuple[front.Compiled, front.Compiled]:
    return einc.compile(room / "small.ein", plan="serve"), einc.compile(room / "small.ein")


def test_a_stream_makes_no_more_than_it_is_asked_for() -> None:
    asked = []

    def logits(ids: torch.Tensor) -> torch.Tensor:
        asked.append(ids.tolist())
        return torch.nn.functional.one_hot((ids + 1) % 9, 9).float()

    tokens = einc.stream(logits, torch.tensor([3]), 100, stop=[7, 8])
    assert asked == [] and int(next(tokens)) == 4 and asked == [[3]]
    assert [int(n) for n in tokens] == [5, 6, 7]
    both = einc.generate(logits, torch.tensor([[3], [5]]), 100, stop={7, 8})
    assert both.tolist() == [[3, 4, 5, 6, 7], [5, 6, 7, 7, 7]]


# what is shown


def test_what_it_prints(room: Path) -> None:
    """Texts on one stream, what there is to say of them on the other."""
    result = said(room, "--prompt", "hello", "--count", "5")
    made = rows(said(room, "--ids", ",".join(map(str, b"hello")), "--count", "5"))[0]
    assert result.stdout == coder(None, VOCABULARY, True).decode(made) + "\n"
    lines = result.stderr.splitlines()
    assert lines[0].startswith("note: each byte of a text is a token") and lines[1].startswith("prefill  5 tokens, ")
    assert lines[2].startswith("steps    4 tokens, ") and lines[2].endswith(" tokens/s") and len(lines) == 4
    spec, weights = compiled(room)[0], load_file(room / "small.safetensors")
    assert spec.prefill is not None
    _, cache = spec.prefill(w=torch.tensor([TEXTS[0]]), **weights, chunk=4)
    assert lines[3].startswith(f"cache    {cache.nbytes // 4:,} bytes a position: ")


def test_several_texts_and_stops(room: Path) -> None:
    whole = rows(said(room, *lists(TEXTS), "--count", "6"))
    assert [len(row) for row in whole] == [6, 6, 6]
    stop = whole[0][3]
    ended = rows(said(room, *lists(TEXTS), "--count", "6", "--stop", f"299,{stop}"))
    assert ended == [row[: row.index(stop)] if stop in row else row for row in whole]
    assert said(room, "--prompt", "abc", "--prompt", "d", "--count", "2").stdout.startswith("[1] ")


@pytest.mark.parametrize(("weights", "more"), [
    ("apart", []), ("other.safetensors", ["--map", "map.toml"]), ("small.safetensors", ["--keep", "x"]),
    ("small.safetensors", ["--dtype", "float64"]),
])
def test_the_same_weights_told_otherwise(room: Path, monkeypatch: pytest.MonkeyPatch, weights: str,
                                         more: list[str]) -> None:
    monkeypatch.chdir(room)
    args = [*lists(TEXTS), "--count", "5"]
    assert rows(said(room, *args, *more, weights=weights)) == rows(said(room, *args))


def test_a_spec_without_a_batch(room: Path, tmp_path: Path) -> None:
    """Texts of one length go one after the other."""
    (tmp_path / "one.ein").write_text(SPEC.replace("index n : batch(B)\n", "").replace("n t", "t").replace("n s", "s"))
    args = [*lists(TEXTS), "--count", "5", "--temperature", "1"]
    alone = said(tmp_path, *args, spec="one.ein", weights=str(room / "small.safetensors"))
    assert rows(alone) == rows(said(room, *args))
    made, ids = einc.compile(tmp_path / "one.ein", plan="serve"), torch.tensor(TEXTS[:1])
    weights = load_file(room / "small.safetensors")
    assert einc.generate(made, ids, 3,
                         given=weights).tolist()[0] == einc.generate(made, ids[0], 3, given=weights).tolist()
    with pytest.raises(ValueError, match="takes one text at a time"):
        einc.generate(made, torch.tensor([TEXTS[0], TEXTS[2]]), 3, given=weights)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    console = Console(stderr=True, force_terminal=True, record=True, width=60)
    monkeypatch.setattr(importlib.import_module("einc.driver.commands.generate"), "Console", lambda **_: console)
    yield console


def test_a_terminal_is_told_what_is_being_done(room: Path, terminal: Console) -> None:
    """And what goes to another place is not mixed with it."""
    result = said(room, *lists(TEXTS), "--count", "3")
    assert "made" in terminal.export_text() and [len(row) for row in rows(result)] == [3, 3, 3]


# texts and tokens


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tokenizer whose tokens are bytes and a few pairs of letters."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(["the then there that"],
                             tokenizers.trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet))
    file = tmp_path_factory.mktemp("tokens") / "tokenizer.json"
    made.save(str(file))
    return str(file)


@settings(max_examples=60, deadline=None)
@given(prompt=st.text(max_size=12), text=st.text(max_size=12), own=st.booleans())
def test_a_text_comes_in_pieces(bytewise: str, prompt: str, text: str, own: bool) -> None:
    words = coder(bytewise if own else None, VOCABULARY, True)
    reader = Reader(words, words.encode(prompt))
    assert "".join([*map(reader.add, words.encode(text)), reader.rest()]) == text


@given(ids=st.lists(st.integers(0, VOCABULARY - 1), max_size=20))
def test_no_tokens_wait_for_long(ids: list[int]) -> None:
    """What can be no character is shown as none."""
    words = coder(None, VOCABULARY, True)
    reader, shown = Reader(words, []), 0
    for n, token in enumerate(ids, 1):
        shown = n if reader.add(token) else shown
        assert n - shown < 4
    assert coder(None, VOCABULARY, False).decode(ids) == " ".join(map(str, ids))


def test_a_tokenizer(room: Path, bytewise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = tokenizers.Tokenizer.from_file(bytewise)
    ids = words.encode("then that").ids
    assert len(ids) < len("then that")
    made = rows(said(room, "--ids", ",".join(map(str, ids)), "--count", "4"))[0]
    result = said(room, "--prompt", "then that", "--count", "4", "--tokenizer", bytewise)
    assert result.stdout == words.decode([*ids, *made]).removeprefix("then that") + "\n" and "note" not in result.stderr
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "tokenizers is not installed" in said(room, "--prompt", "a", "--tokenizer", bytewise, status=1).stderr


# what does not fit


@pytest.mark.parametrize(("args", "weights", "error"), [
    ("--ids 1", "nothing.safetensors", "no such file"),
    ("--ids 1", "empty", "has no .safetensors file"),
    ("--ids 1", "small.ein", "ends neither in .npz nor in .safetensors"),
    ("--ids 1", "other.safetensors", "has no `U`, which the spec asks for"),
    ("--ids 1", "whole.safetensors", "`E` in"),
    ("--ids 1 --map map.toml", "small.safetensors", "there is no `out` among the weights"),
    ("--ids 1 --map nothing", "small.safetensors", "is no map of weights"),
    ("", "small.safetensors", "give what to go on with"),
    ("--ids 1 --prompt a", "small.safetensors", "not both"),
    ("--ids 1,x", "small.safetensors", "`x` is no token"),
    ("--ids -1", "small.safetensors", "`-1` is no token"),
    ("--ids 1,300", "small.safetensors", "300 is no token of this model: they are 0 to 299"),
    ("--ids 1 --stop 300", "small.safetensors", "300 is no token"),
    ("--prompt=", "small.safetensors", "a text has no token"),
    ("--ids=", "small.safetensors", "a text has no token"),
    ("--prompt a", "few.safetensors", "the vocabulary has 50 tokens"),
    ("--prompt a --tokenizer nothing.json", "few.safetensors", "no such file"),
    ("--prompt a --tokenizer map.toml", "few.safetensors", "cannot be read as a tokenizer"),
    ("--ids 1 --temperature nan", "small.safetensors", "temperature = nan"),
    ("--ids 1 --temperature 1 --top-k 0", "small.safetensors", "--top-k = 0"),
    ("--ids 1 --top-p 0.5", "small.safetensors", "give a temperature"),
    ("--ids 1 --sizes T=4", "small.safetensors", "`T` is told by the prompts"),
    ("--ids 1 --sizes Q=4", "small.safetensors", "`Q` is no size"),
    ("--ids 1 --sizes D=9", "small.safetensors", "`D`"),
    ("--ids 1 --keep Q", "small.safetensors", "`Q` is no tensor"),
])
def test_what_does_not_fit_is_refused(room: Path, monkeypatch: pytest.MonkeyPatch, args: str, weights: str,
                                      error: str) -> None:
    monkeypatch.chdir(room)
    assert error in said(room, *args.split(), weights=weights, status=1).stderr


def test_a_count_of_none_is_refused(room: Path) -> None:
    assert "'--count'" in said(room, "--ids", "1", "--count", "0", status=2).stderr
    assert "'--weights'" in said(room, "--ids", "1", weights=None, status=2).stderr


@pytest.mark.parametrize(("change", "error"), [
    (("output O_{n t}^v =", "output O_t^v = Σ_n"), "has no tokens"),
    (("0..V-1", "V"), "count from 1"),
    (("output O_{n t}^v", "output O_{n t v}"), ""),
    (("w_{n t} : int", "w_{n t}, a_{n t} : int"), "several that could be tokens: `w`, `a`"),
    (("weight E_v^f", "input c\nweight E_v^f"), "`c`, which the spec asks for beside the tokens"),
    (("mask L_{n t s} : s ≤ t", "mask L_{n t s} : all"), "later positions"),
    (("index v : vocab(0..V-1)", "index v : latent(0..V-1)"), "has no logits"),
])
def test_a_spec_that_is_no_language_model_is_refused(room: Path, tmp_path: Path, change: tuple[str, str],
                                                     error: str) -> None:
    text = SPEC.replace(*change)
    text = text.replace("U_f^v\n", "U_f^v c\n") if "input c" in text else text
    text = text.replace("E_{w_{n t}}^f +", "E_{w_{n t}}^f + E_{a_{n t}}^f +") if "a_{n t}" in text else text
    (tmp_path / "other.ein").write_text(text, encoding="utf-8")
    weights = str(room / "small.safetensors")
    assert error in said(tmp_path, "--ids", "1", "--count", "1", spec="other.ein", weights=weights,
                         status=bool(error)).stderr


def test_positions_that_nothing_was_learned_of(room: Path) -> None:
    assert "texts may come to 41 positions, and `P` has 40" in said(room, "--ids", "1", "--count", "40").stderr
    assert "note" not in said(room, "--ids", "1", "--count", "39").stderr


def test_a_config_is_held_against_the_spec(tmp_path: Path) -> None:
    """Another base of the angles would give other tokens without a word; sizes are told by it."""
    given = {"num_attention_heads": 4, "rope_parameters": {"rope_theta": 500000.0}}
    with pytest.raises(EincError, match=r"rope_theta = 500000\.0, and `llama_lm` computes with 10000\.0"):
        agreed(written_map("llama_lm")[1], config(tmp_path, given), "llama_lm", {})
    given["rope_parameters"] = {"rope_theta": 10000.0}
    assert agreed(written_map("llama_lm")[1], config(tmp_path, given), "llama_lm", {"G": 2}) == {"H": 4, "G": 2}
    with pytest.raises(EincError, match="num_attention_heads = 4, and --sizes H=8"):
        agreed(written_map("llama_lm")[1], config(tmp_path, given), "llama_lm", {"H": 8})


def config(folder: Path, words: dict[str, Any]) -> dict[str, Any]:
    (folder / "config.json").write_text(json.dumps(words), encoding="utf-8")
    return beside(str(folder / "model.safetensors"))


def test_the_fault_of_one_text_leaves_the_others(room: Path) -> None:
    weights = load_file(room / "small.safetensors")
    weights["E"][7] = float("nan")
    save_file(weights, room / "faulty.safetensors")
    result = said(room, *lists([[7, 1], [1, 2]]), "--count", "4", status=1, weights="faulty.safetensors")
    assert rows(result)[1] == rows(said(room, *lists([[1, 2]]), "--count", "4"))[0]
    assert "note: text 1 of 2 ends early" in result.stderr and "none is a finite greatest" in result.stderr


def test_a_pool_has_pages_of_the_size_that_the_text_says(room: Path) -> None:
    """`--page` stands before what the text says, and 16 positions where neither says anything."""
    (room / "paged.ein").write_text(f"{SPEC}plan serve:\n    cache x paged 3\n", encoding="utf-8")
    words = ("--ids", "5,9", "--count", "2", "--pages", "8")
    for spec, more, page in (("paged.ein", (), 3), ("paged.ein", ("--page", "2"), 2), ("small.ein", (), 16)):
        assert f"{page} positions each" in said(room, *words, *more, spec=spec).stderr
