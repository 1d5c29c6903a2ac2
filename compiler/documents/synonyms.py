r"""Other names that papers have for functions of the language, and the vector of ones whose size the words say.

`\\text{LayerNorm}(x)` is `LN(x)` and `\\text{Swish}(x)` is `silu(x)` where the text defines no function of that name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from einc.checking.matrices.shapes import mapped
from einc.documents.document import Document
from einc.syntax import tree as s

SYNONYMS = {"layernorm": "LN", "layernormalization": "LN", "swish": "silu",
            "logistic": "sigmoid"}
# What sentences call functions of the language.
SPOKEN = {"layernorm": "LN", "layer normalization": "LN", "layer normalisation": "LN", "layer-norm": "LN",
          "rms normalization": "RMSNorm", "root mean square normalization": "RMSNorm"}
_DEFINED = r"{}\}}?\s*(?:\\left)?\s*\([^()]*\)\s*&?\s*(?:=|:=|\\triangleq)"
_ONES = re.compile(r"\\math(?:bf|bb)\s*\{?1\}?\s*\\in\s*\\mathbb\s*\{?R\}?\s*\^\s*(?:\{\s*)?(?:1\s*\\times\s*)?"
                   r"(?P<size>[A-Za-z])(?:_\{?(?:\\(?:text|mathrm)\{)?(?P<label>\w+))?")


def other_names(line: s.Statement, document: Document) -> s.Statement:
    """The line with the names of the language, and with the size of a vector of ones below it."""
    size, ours = _said(document.source.text)

    def name(node: s.Expression) -> s.Expression:
        """The expression with each such name in its place."""
        match node:
            case s.Number("1") if size is not None and node.span.text.startswith("\\"):
                base = s.Word(size[0], node.span)
                label = s.Script("lower", s.Word(size[1] or "", node.span, quoted=True), "", node.span)
                below = s.Scripted(base, (), (label,), node.span) if size[1] else base
                return s.Scripted(node, (), (s.Script("lower", below, "", node.span),), node.span)
            case s.Scripted(s.Number()):
                return node if any(k.kind == "lower" for k in node.scripts) else mapped(node, name)
            case s.Product(factors):
                given_ = (x.base if isinstance(x, s.Scripted) else x for x in (*factors[1:], None))
                called = [isinstance(x, s.Group) and x.open == "(" for x in given_]
                return mapped(s.Product(tuple(
                    s.Word(SYNONYMS[x.text.lower()], x.span) if given and isinstance(x, s.Word) and x.quoted
                    and x.text.lower() in ours else x
                    for x, given in zip(factors, called, strict=True)), node.operators, node.span), name)
        return mapped(node, name)

    if size is None and not ours:
        return line
    return replace(line, clauses=tuple(replace(c, body=name(c.body)) for c in line.clauses))


@lru_cache(maxsize=8)
def _said(text: str) -> tuple[tuple[str, str | None] | None, frozenset[str]]:
    """The size and the label of a vector of ones, where the words of a text give one alone, and the other names that
    the text has, without those of which it defines a function."""
    ones = {(str(x["size"]), x["label"]) for x in _ONES.finditer(text)}
    ours = {x for x in SYNONYMS if re.search(x, text, re.I) and not re.search(_DEFINED.format(x), text, re.I)}
    return ones.pop() if len(ones) == 1 else None, frozenset(ours)
