"""The parser of a grammar from tables that were made before: building them takes as long as the rest of `einc check`.

The tables are data, in a JSON file beside the grammar, with the hash of the grammar and the version of lark that they
were made from. Where either differs they are built anew; `python -m einc.syntax.parse > grammar/ein.json` writes them.
"""

from __future__ import annotations

import json
from functools import partial
from hashlib import sha256
from importlib.resources import files
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

_OPTIONS = {"parser": "lalr", "maybe_placeholders": False}


def parser(lexer: type, transformer: Any) -> Lark:
    """The parser of `grammar/ein.lark`, whose words come from `lexer`; rules are handed to methods of `transformer`."""
    grammar = _text("ein.lark")
    known = _stored(lexer)
    if known.get("of") != _key(grammar):
        return Lark(grammar, lexer=lexer, transformer=transformer, **_OPTIONS)
    made: Lark = Lark.__new__(Lark)
    return made._load({name: known[name] for name in ("data", "memo")}, transformer=transformer)


def tables(lexer: type) -> str:
    """The text of the file of tables for the grammar as it is."""
    grammar = _text("ein.lark")
    data, memo = Lark(grammar, lexer=lexer, **_OPTIONS).memo_serialize([TerminalDef, Rule])
    made = {"of": _key(grammar), "data": _as_json(data), "memo": _as_json(memo)}
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def _text(name: str) -> str:
    return files("einc.grammar").joinpath(name).read_text(encoding="utf-8")


def _stored(lexer: type) -> dict[str, Any]:
    """What the file of tables holds; nothing where it is not there or is no JSON."""
    try:
        found = json.loads(_text("ein.json"), object_hook=partial(_read, lexer))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _key(grammar: str) -> str:
    return f"{sha256(grammar.encode()).hexdigest()} lark {lark.__version__}"


def _as_json(value: Any) -> Any:
    """The value as JSON has it: dictionaries as pairs, whose keys may be whole numbers;
    the class of the lexer by a mark."""
    match value:
        case type():
            return {"lexer": True}
        case dict():
            return {"": [[key, _as_json(inner)] for key, inner in value.items()]}
        case list() | tuple():
            return [_as_json(inner) for inner in value]
        case set() | frozenset():
            return sorted(value)
    return value


def _read(lexer: type, found: dict[str, Any]) -> Any:
    """What `_as_json` made an object of; what were tuples and sets stay lists."""
    match found:
        case {"": pairs}:
            return dict(pairs)
        case {"lexer": True}:
            return lexer
    return found
