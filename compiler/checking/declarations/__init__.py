"""Declarations -> Scope: names, scripts, index sets, signatures of tensors.

Knows no expression.
"""
