"""A program in C++ around the kernels of a file: it reads what a call was given and left, calls the kernel on memory
that ends where each tensor ends, and compares. So kernels run under sanitizers, and on processors that are not here."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cpp_texts import globals_of
from helpers import Function

_KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}  # of numbers that are compared; others are equal

HEAD = "#include <cmath>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n"
MAIN = r"""
typedef L Room(const L*);
typedef L Run(void* const*, const L*, const double*, float*, L, L);
struct Kernel { Room* room; Run* run; };
static const Kernel KERNELS[] = {@TABLE@};
static FILE* file;
static void bytes(void* p, L n) {
  if (n && fread(p, 1, n, file) != (size_t)n) { printf("the file ends early\n"); exit(3); }
}
static L whole() { L n; bytes(&n, 8); return n; }
static double number(const char* p, L kind, L n) {
  if (kind == 0) { float x; memcpy(&x, p + 4 * n, 4); return x; }
  bf16 half;
  memcpy(&half, p + 2 * n, 2);
#if defined(FLOAT16)
  if (kind == 2) { f16 other; memcpy(&other, p + 2 * n, 2); return num(other); }
#endif
  return num(half);
}
static bool near_enough(const char* got, const char* want, L kind, L size, double bound) {
  if (kind == 3) return memcmp(got, want, size) == 0;
  L count = size / (kind ? 2 : 4);
  double most = 1;
  for (L n = 0; n < count; n++) {
    double y = number(want, kind, n);
    if (y - y == 0 && y * y > most * most) most = y < 0 ? -y : y;
  }
  for (L n = 0; n < count; n++) {
    double x = number(got, kind, n), y = number(want, kind, n);
    if (x == y || (x != x && y != y)) continue;
    if (!(x - y <= bound * most && y - x <= bound * most)) { printf("%g in place of %g\n", x, y); return false; }
  }
  return true;
}
int main(int, char** arguments) {
  file = fopen(arguments[1], "rb");
  double bound = atof(arguments[2]);
  L calls = whole(), wrong = 0;
  for (L call = 0; call < calls; call++) {
    L kernel = whole(), tensors = whole();
    char** given = (char**)malloc(tensors * sizeof(char*) + 8);
    char** want = (char**)malloc(tensors * sizeof(char*) + 8);
    L* size = (L*)malloc(tensors * 8 + 8);
    L* kind = (L*)malloc(tensors * 8 + 8);
    for (L n = 0; n < tensors; n++) {
      kind[n] = whole(), size[n] = whole();
      given[n] = (char*)malloc(size[n] ? size[n] : 1), want[n] = (char*)malloc(size[n] ? size[n] : 1);
      bytes(given[n], size[n]), bytes(want[n], size[n]);
    }
    L integers = whole();
    L* sizes = (L*)malloc(integers * 8 + 8);
    bytes(sizes, integers * 8);
    L reals = whole();
    double* numbers = (double*)malloc(reals * 8 + 8);
    bytes(numbers, reals * 8);
    L each = KERNELS[kernel].room(sizes);
    for (L threads = 1; threads <= 2; threads++) {
      char** now = (char**)malloc(tensors * sizeof(char*) + 8);
      for (L n = 0; n < tensors; n++) {
        now[n] = (char*)malloc(size[n] ? size[n] : 1);
        memcpy(now[n], given[n], size[n]);
      }
      float* room = (float*)aligned_alloc(64, threads * each * 4 + (threads * each ? 0 : 64));
      L bad = KERNELS[kernel].run((void* const*)now, sizes, numbers, room, each, threads);
      if (bad) { printf("it did not run\n"); wrong++; }
      for (L n = 0; n < tensors; n++) {
        if (!near_enough(now[n], want[n], kind[n], size[n], bound)) {
          printf("call %lld, %lld threads: tensor %lld differs\n", call, threads, n);
          wrong++;
        }
        free(now[n]);
      }
      free(now), free(room);
    }
    for (L n = 0; n < tensors; n++) free(given[n]), free(want[n]);
    free(given), free(want), free(size), free(kind), free(sizes), free(numbers);
  }
  printf("%lld calls, %lld wrong\n", calls, wrong);
  return wrong != 0;
}
"""


@dataclass(frozen=True)
class Call:
    """A call of a compiled kernel: by its name, its memory before and after, whole numbers and others."""

    kernel: str
    dtype: torch.dtype
    vectors: int
    tensors: tuple[tuple[int, bytes, bytes], ...]
    whole: tuple[int, ...]
    numbers: tuple[float, ...]

    def written(self, kernels: Sequence[str]) -> bytes:
        """As the program reads it."""
        parts = [struct.pack("<qq", kernels.index(self.kernel), len(self.tensors))]
        for kind, before, after in self.tensors:
            parts += [struct.pack("<qq", kind, len(before)), before, after]
        parts.append(struct.pack(f"<q{len(self.whole)}q", len(self.whole), *self.whole))
        return b"".join([*parts, struct.pack(f"<q{len(self.numbers)}d", len(self.numbers), *self.numbers)])


def _memory(x: torch.Tensor) -> bytes:
    """The bytes from the first number of a tensor to its last."""
    count = 0 if 0 in x.shape else 1 + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    flat = torch.as_strided(x.detach(), (count,), (1,)).contiguous()
    return bytes(flat.view(torch.uint8).numpy()) if count else b""


@contextmanager
def recorded(function: Function) -> Iterator[list[Call]]:
    """The calls of compiled kernels within."""
    names, calls = globals_of(function), list[Call]()
    kept = names["_native"]

    def run(text: str, name: str, tensors: list[torch.Tensor], sizes: list[int], numbers: list[float], work: int,
            dtype: torch.dtype, vectors: int = 2) -> Any:
        before = [_memory(x) for x in tensors]
        done = kept(text, name, tensors, sizes, numbers, work, dtype, vectors)
        if done:
            made = tuple((_KINDS.get(x.dtype, 3), old, _memory(x)) for x, old in zip(tensors, before, strict=True))
            whole = (*(n for x in tensors for n in x.stride()), *sizes)
            calls.append(Call(name, dtype, vectors, made, whole, tuple(numbers)))
        return done

    names["_native"] = run
    try:
        yield calls
    finally:
        names["_native"] = kept


def checked(folder: Path, function: Function, calls: Sequence[Call], compiler: Sequence[str],
            before: Sequence[str] = (), bound: float = 1e-4) -> str:
    """Runs the program for all calls of one type and number of vectors; what it says. `compiler` with its flags,
    `before` what stands before the program where it is started.
    """
    (kind,) = {(call.dtype, call.vectors) for call in calls}
    names, kernels = globals_of(function), sorted({call.kernel for call in calls})
    table = ", ".join(f"{{{name}_room, {name}}}" for name in kernels)
    data = [flag for flag in names["_native_flags"](*kind) if flag.startswith("-D") or flag.startswith("-std")]
    program, text = folder / "driver", HEAD + names["_CPP"] + MAIN.replace("@TABLE@", table)
    done = subprocess.run([*compiler, *data, "-fno-math-errno", "-fopenmp", "-w", "-x", "c++", "-", "-o", str(program)],
                          input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    (folder / "calls").write_bytes(struct.pack("<q", len(calls)) + b"".join(call.written(kernels) for call in calls))
    ran = subprocess.run([*before, str(program), str(folder / "calls"), str(bound)], capture_output=True, check=False)
    said = ran.stdout.decode() + ran.stderr.decode()
    assert ran.returncode == 0, said[-6000:]
    return said
