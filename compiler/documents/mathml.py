"""TeX -> MathML as a browser shows it: latex2mathml, with what it stumbles over taken out
before and set right after."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement, tostring

from latex2mathml.converter import convert_to_element

from einc.syntax.macros import Meaning, arguments, filled

MAX_TEX, MAX_EXPANSIONS = 8_000, 200

_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_DROPPED = re.compile(r"\\label\s*\{[^{}]*\}|\\!|\\(?:nonumber|notag|IEEE(?:non|yes)number|IEEEeqnarraynumspace|limits"
                      r"|nolimits|ensuremath|mathstrut)(?![A-Za-z])")
_TAG = re.compile(r"\\tag\*?\s*\{([^{}]*)\}")
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([A-Za-z]+\*?)\}(?:\[[tbc]\])?")
_ENVIRONMENTS = {
    "aligned": "align*", "alignedat": "align*", "split": "align*", "align": "align*", "alignat": "align*",
    "flalign": "align*",
    "gathered": "gather*", "gather": "gather*", "multline": "gather*", "multlined": "gather*", "eqnarray": "align*",
    "IEEEeqnarray": "align*",
}
_WORD = re.compile(r"\\([A-Za-z]+)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_SPELLED = {"Σ_": r"\sum_", "∑": r"\sum ", "∏": r"\prod ", "√": r"\surd ", ":=": "≔", "\u00a0": " ", "...": r"\ldots ",
            "..": "‥"}
_EDGES = re.compile(r"\A(?:\s|&|\\\\|\\q?quad(?![A-Za-z])|\\[,;: ])+|(?:\s|&|\\\\)+\Z")

_KEPT = frozenset({
    "display", "mathvariant", "width", "height", "depth", "stretchy", "fence", "form", "minsize", "maxsize", "accent",
    "accentunder", "displaystyle", "scriptlevel", "columnalign", "rowspacing", "columnspacing", "columnlines",
    "rowlines",
    "linethickness", "lspace", "movablelimits", "mathcolor", "rspace", "separator", "symmetric", "voffset",
})
_SCRIPTED = ("msub", "msup", "msubsup")
_LETTERS = frozenset("∂∇∞∅∀∃")
_STYLES = {"bold": ("MATHEMATICAL BOLD", "BOLD"), "double-struck": ("MATHEMATICAL DOUBLE-STRUCK", "DOUBLE-STRUCK")}


def mathml(tex: str, display: bool, macros: Mapping[str, Meaning] | None = None) -> str | None:
    """The formula as a `math` element; nothing where it cannot be shown."""
    tex = cleaned(tex, macros or {})
    if not tex or len(tex) > MAX_TEX:
        return None
    try:
        root = convert_to_element(tex, display="block" if display else "inline")
    except Exception:
        # The library raises whatever its own walk runs into; a formula that it cannot show stands as its source.
        return None
    _settle(root)
    return tostring(root, encoding="unicode", short_empty_elements=False)


def cleaned(tex: str, macros: Mapping[str, Meaning]) -> str:
    """The formula in the words that latex2mathml knows."""
    tex = expanded(_CONTROL.sub(" ", _COMMENT.sub("", tex)), macros)
    tex = _TAG.sub(r"\\qquad (\1)", _DROPPED.sub(" ", tex))
    for spelled, macro in _SPELLED.items():
        tex = tex.replace(spelled, macro)
    tex = _EDGES.sub("", _ENVIRONMENT.sub(_environment, tex))
    return rf"\begin{{align*}} {tex} \end{{align*}}" if _in_rows(tex) else tex


def _environment(found: re.Match[str]) -> str:
    name = _ENVIRONMENTS.get(found[2].rstrip("*"), found[2])
    if name == "gather*":
        return r"\begin{array}{c}" if found[1] == "begin" else r"\end{array}"
    return rf"\{found[1]}{{{name}}}"


def _in_rows(tex: str) -> bool:
    """Whether a line end or a mark of alignment stands outside every environment."""
    depth = 0
    for found in re.finditer(r"\\begin\b|\\end\b|\\\\|\\.|[&{}]", tex):
        depth += (found[0] in ("\\begin", "{")) - (found[0] in ("\\end", "}"))
        if depth == 0 and found[0] in ("&", "\\\\"):
            return True
    return False


def expanded(tex: str, macros: Mapping[str, Meaning]) -> str:
    """The text with the author's macros written out, as far as that comes to an end."""
    at = 0
    for _ in range(MAX_EXPANSIONS if macros else 0):
        found = next((m for m in _WORD.finditer(tex, at) if m[1] in macros), None)
        if found is None or len(tex) > MAX_TEX:
            break
        given, end = arguments(tex, found.end(), macros[found[1]])
        body, at = filled(macros[found[1]].body, given, MAX_TEX), found.start()
        if body is None:
            break
        tex = f"{tex[:at]}{body}{' ' if body[-1:].isalpha() and tex[end : end + 1].isalpha() else ''}{tex[end:]}"
    return tex


def _settle(element: Element) -> None:
    """Sets right what browsers would show otherwise, from the leaves up; only attributes of layout stay."""
    element.text = html.unescape(element.text) if element.text else None
    element.tail = None
    for name in [name for name in element.attrib if name not in _KEPT]:
        del element.attrib[name]
    for child in list(element):
        _settle(child)
        if child.tag == "mi" and child.text in ("&", None):
            element.remove(child)
    _signed(element)
    text = element.text or ""
    if (element.tag == "mi" and len(text) == 1 and text not in _LETTERS
        and (unicodedata.category(text) == "Sm" or text in ":;,.!")):
        element.tag = "mo"
    elif element.tag == "mo" and text in _LETTERS:
        element.tag = "mi"
    elif element.tag == "mo" and len(text) > 1 and text.isalpha():
        element.attrib |= {"lspace": "0.1em", "rspace": "0.1em"}
    if (style := element.attrib.get("mathvariant")) in _STYLES:
        element.text = "".join(_styled(c, style) for c in text)
        del element.attrib["mathvariant"]
    if element.tag in _SCRIPTED and len(element) and element[0].tag == "mrow" and not len(element[0]):
        _strut(element[0])
    if element.tag == "mover" and len(element) > 1 and element[1].text in ("^", "~", "¯", "‾"):
        element.set("accent", "true")
        element[1].set("stretchy", "false" if _letters(element[0]) == 1 else "true")


def _signed(element: Element) -> None:
    """Marks a sign after an operator as the sign of what follows it, not between two things."""
    before: Element | None = None
    for child in element:
        if child.tag == "mo" and child.text in ("−", "-", "+") and before is not None and before.tag == "mo":
            between = (before.get("form") != "postfix"
                       and (before.text or "") not in (")", "]", "}", "′", "|", "…", "⊤", "!"))
            child.attrib |= {"form": "prefix"} if between else {}
        before = child


def _strut(base: Element) -> None:
    """Makes a script of `{}` stand as high as beside a letter."""
    base.tag = "mpadded"
    base.set("width", "0")
    SubElement(SubElement(base, "mphantom"), "mi").text = "X"


def _letters(element: Element) -> int:
    return sum(len(leaf.text or "") for leaf in element.iter())


def _styled(char: str, style: str) -> str:
    """A letter or digit in a style, as the character that Unicode has for it: browsers read no `mathvariant`."""
    kind = "SMALL" if char.islower() else "CAPITAL"
    greek = "" if char.isascii() else unicodedata.name(char, "").rpartition(" ")[2]
    rest = f"DIGIT {unicodedata.name(char).rpartition(' ')[2]}" if char.isdigit() else f"{kind} {greek or char.upper()}"
    for prefix in _STYLES[style]:
        try:
            return unicodedata.lookup(f"{prefix} {rest}")
        except KeyError:
            continue
    return char
