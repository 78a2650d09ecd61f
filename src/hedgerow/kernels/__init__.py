"""The compiled inner loops. Imported only when the first fit or stream needs them; compiled once, cached on disk.

Each loop has a NumPy twin that is its specification, and tests hold the two together. Sums may be taken in any order
(`SUMS`), so that they run in vector registers; one instance and a block go through the same loop, and so get the same
numbers. No loop starts a thread.

A sum in any order is best taken in a loop that writes to no array. The compiler guards one that does by a look, a rough
one, at whether the arrays may overlap, and adds up in another order if so: the same stream could end in other last
digits, by the chance of where memory was free (`tests/test_kernel_memory.py`).

Plain loops only, no whole-array assignment, sum or product: each of those compiles part of numba's own library, an
assignment alone three seconds of it (the error message that it could give). And one kind of array for each argument:
every other memory layout, and every constant passed as an argument, is compiled again.
"""

from __future__ import annotations
