"""Answers as the Language Server Protocol has them."""

from __future__ import annotations

from lsprotocol import types as lsp
from pygls.uris import from_fs_path, to_fs_path

from einc.driver.editor.actions import Action, Edits
from einc.driver.editor.completion import Item, Sort
from einc.driver.editor.diagnostics import Diagnostic
from einc.driver.editor.hints import Hint
from einc.driver.editor.places import Location
from einc.driver.editor.positions import Position, Range

_KINDS: dict[Sort, lsp.CompletionItemKind] = {
    "name": lsp.CompletionItemKind.Variable, "index": lsp.CompletionItemKind.TypeParameter,
    "size": lsp.CompletionItemKind.Constant, "function": lsp.CompletionItemKind.Function,
    "keyword": lsp.CompletionItemKind.Keyword, "class": lsp.CompletionItemKind.Class,
    "file": lsp.CompletionItemKind.File, "character": lsp.CompletionItemKind.Text,
}


def path_of_uri(uri: str) -> str:
    """The path of a text; one that was never saved has the address itself as its name."""
    return to_fs_path(uri) or uri


def uri_of(path: str) -> str:
    """The address of the file at a path."""
    return path if "://" in path or path.startswith("untitled:") else str(from_fs_path(path))


def position(place: lsp.Position) -> Position:
    """A place that a client speaks of."""
    return Position(place.line, place.character)


def spoken_position(place: Position) -> lsp.Position:
    """A place in a text as the protocol has it, a line and a character, both from 0."""
    return lsp.Position(place.line, place.character)


def range_(found: lsp.Range) -> Range:
    """A range that a client speaks of."""
    return Range(position(found.start), position(found.end))


def spoken_range(found: Range) -> lsp.Range:
    """A range of a text as the protocol has it, its end behind the last character."""
    return lsp.Range(spoken_position(found.start), spoken_position(found.end))


def location(found: Location) -> lsp.Location:
    """A range in a file as the protocol has it, with the address of the file."""
    return lsp.Location(uri_of(found.path), spoken_range(found.range))


def diagnostic(found: Diagnostic) -> lsp.Diagnostic:
    """A problem as the protocol has it: range, message, severity, code, and the other places that it speaks of."""
    severity = lsp.DiagnosticSeverity.Error if found.severity == "error" else lsp.DiagnosticSeverity.Warning
    related = [lsp.DiagnosticRelatedInformation(location(Location(x.path, x.range)), x.message) for x in found.related]
    return lsp.Diagnostic(spoken_range(found.range), found.message, severity, found.code or None, source="einc",
                          related_information=related)


def hint(found: Hint) -> lsp.InlayHint:
    """Words between the words of a text."""
    return lsp.InlayHint(spoken_position(found.position), found.label, tooltip=found.tooltip or None,
                         kind=lsp.InlayHintKind.Type if found.after else None)


def edits(found: Edits) -> list[lsp.TextEdit]:
    """Changes of one text as the protocol has them, each a range and what takes its place."""
    return [lsp.TextEdit(spoken_range(here), new) for here, new in found]


def changes(uri: str, found: Edits) -> lsp.WorkspaceEdit:
    """Changes of the text at an address."""
    return lsp.WorkspaceEdit(changes={uri: edits(found)})


def item(found: Item) -> lsp.CompletionItem:
    """A completion as the editor protocol has it."""
    return lsp.CompletionItem(found.label, kind=_KINDS[found.kind], detail=found.detail or None,
                              filter_text=found.label, text_edit=lsp.TextEdit(spoken_range(found.range), found.new))


def action(uri: str, found: Action) -> lsp.CodeAction:
    """A code action as the editor protocol has it, with its edit or its command."""
    command = None if not found.command else lsp.Command(found.title, found.command, arguments=list(found.arguments))
    mends = None if found.mends is None else [diagnostic(found.mends)]
    return lsp.CodeAction(found.title, kind=found.kind, diagnostics=mends, command=command,
                          is_preferred=found.preferred or None, edit=changes(uri, found.edits) if found.edits else None)
