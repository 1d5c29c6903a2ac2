"""The source of a plain function of arrays -> the spec that it is, read by `ast` and never run.

`reading` is the door. `interpret` goes through the statements; a tensor is a term over the letters of its axes
(`terms`), a view changes the letters and never the data (`axes`), and `operations` has what a view is not.
`grammar/python_library.txt` says, as Python text, what the functions of the libraries are.
"""
