"""What is compiled, as data: index sets, terms, predicates, programs and plans, and the tables of primitives and folds.

In: Nothing.
Out: Frozen records, and functions of them that decide nothing.
May import: errors.
"""
