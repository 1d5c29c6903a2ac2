"""Errors E08xx: documents."""

from __future__ import annotations

from einc.errors.report import Problem

_LAYER = "# A layer\n\n```ein\nindex t : time(T)\ninput x_t\n```\n\n"


class NotAccounted(
    Problem, code="E0801", section="13.2", title="a display equation that is neither compiled nor skipped",
    example=_LAYER + "$$ y_t = 2 x_t $$\n\n$$ x \\mapsto y $$\n",
    example_name="example.md",
    explanation=(
        "Every display equation of a document is compiled, proved to restate another, or skipped with a reason: "
        "nothing is passed "
        "over in silence. Where an equation is for readers alone, `<!-- ein: skip reason -->` before it says so; in "
        "TeX a line "
        "`%! skip reason` does."
    ),
): ...


class DeclaredOtherwise(
    Problem, code="E0802", section="13.1", title="a symbol declared in two ways for one section",
    example=_LAYER + "For $t \\in \\{1..N\\}$ the layer is\n\n$$ y_t = 2 x_t $$\n",
    example_name="example.md",
    explanation=(
        "Papers use a letter again for something else, but within one section it means one thing. What a side file or "
        "an `ein` "
        "fence declares, and what the text itself says of index sets, must agree there; a declaration for one section "
        "alone "
        'stands below `section "…":` in the side file.'
    ),
): ...


class NotRestated(
    Problem, code="E0803", section="13.2", title="a restated equation that is not equal to the first",
    example=_LAYER + "$$ y_t = 2 x_t $$\n\nThat is,\n\n$$ y_t = x_t + 2 x_t $$\n",
    example_name="example.md",
    explanation=(
        "A second equation for one tensor in one section restates the first, and is proved equal to it after "
        "normalising. A later "
        "section may define the tensor anew, as a variant."
    ),
): ...


class NoSuchSection(
    Problem, code="E0804", section="13.3", title="a section, an equation or a sentence that the document does not have",
    example=_LAYER.replace("input x_t\n", 'input x_t\nsection "Another layer":\n    output y_t\n')
    + "$$ y_t = 2 x_t $$\n",
    example_name="example.md",
    explanation=(
        '`--section "…"` and a line `section "…":` of a side file name a section by its title, by how the title '
        'begins, or by a '
        "part of it, whatever the case of its letters. It has to be one section. `--equation NAME` names an equation "
        "by its label, `eq:scores`, by its number or tag, `3` or `(3)`, or all displays of a section by its title. A "
        'line `ignore "…"` of a side file names the sentences in which these words stand.'
    ),
): ...


class NotTaken(
    Problem, code="E0805", section="13.5", title="a file that the document names and that is not read",
    example="%! index t : time(T)\n%! input x_t\n\\input{../macros}\n$$ y_t = 2 x_t $$\n",
    example_name="example.tex",
    explanation=(
        "`\\input`, `\\include`, `\\subfile` and `\\import` are read from the folder of the document, or from the "
        "archive that it came in, and from nowhere else: no absolute path, no `..`, no link and no command. A file may "
        "not take itself in, and how many files there are, how deep they stand and how long they are together is "
        "bounded. The rest of the document is read."
    ),
): ...


class Unpacked(
    Problem, code="E0806", section="13.5", title="a notebook, an archive or a folder with no document in it",
    example='{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "$$ y_t = 2 x_t $$"}',
    example_name="example.ipynb",
    explanation=(
        "A notebook is JSON of format 4. An archive is unpacked in memory, and has no more members and bytes than are "
        "read, none of them outside of its folder. A folder or an archive has one `.tex` file with `\\documentclass`; "
        "where there are several, the path says which is meant: `paper.tar.gz/main.tex`."
    ),
): ...


class NotThere(
    Problem, code="W0805", section="13.5", severity="warning",
    title="a file that the document names and that is not there",
    example="%! index t : time(T)\n%! input x_t\n\\input{macros}\n$$ y_t = 2 x_t $$\n",
    example_name="example.tex",
    explanation=(
        "`\\input{macros}` takes in `macros.tex` or `macros`, from the folder of the document or from that of the file "
        "that says so. Where neither is there the rest of the document is read; macros that the file defines are not "
        "known then."
    ),
): ...


class Damaged(
    Problem, code="W0801", section="13.4", severity="warning",
    title="a document that was decoded as something it is not",
    example=_LAYER + "â€¢ The layer is\n\n$$ y_t = 2 x_t $$\n",
    example_name="example.md",
    explanation=(
        "Where a file in UTF-8 was read as Windows-1252, `•` has become `â€¢`, and some characters are lost. Equations "
        "in plain "
        "letters are read all the same; Greek letters and signs that were damaged are not what they were."
    ),
): ...
