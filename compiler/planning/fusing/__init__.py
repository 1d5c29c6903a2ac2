"""Which equations share a kernel, and their lets.

NormalProgram -> groups -> Kernel. Imports: analysis, contractions, streaming.
"""
