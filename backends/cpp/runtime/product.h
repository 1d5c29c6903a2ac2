// Products of few rows of data with a matrix that is read once, y[t, e] = sum over b of s[b, e] * sum over u of
// x[t, b, u] * w[b, u, e]. The numbers of w, which may have few bits, become real ones in registers alone.
//
// R, C   rows and pairs of vectors of columns whose sums are in registers
// T, S   the types in memory of w and of s
#define TWOS 4      // pairs of vectors of columns of a piece of work whose lanes are columns
#define COLUMNS 32  // columns of a piece of work whose lanes are terms of a sum
#define SOON 32     // how many rows of w ahead of their use memory is asked for them

// 2 W numbers that lie side by side, as two vectors. Of numbers that lie two in a byte one vector has the first of each
// two and the other the second, which is how they come out of their bytes; so does what meets them.
template <class T> INL void two(const T* p, V& a, V& b) {
  a = near(p);
  b = near(p + W);
}
INL void sorted(const int4*, V&, V&);
INL void two(const int4* p, V& a, V& b) {
  if ((L)p & 1) {  // the first of them is the second of a byte
    a = near(p);
    b = near(p + W);
    return sorted(p, a, b);
  }
  const I x = bytes(byte_of(p));
#if defined(__AVX512F__)
  // A table of all 16 numbers: the instruction reads the last 4 bits of each lane.
  const V table = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
  const I y = x >> 4;
  asm("vpermps %2, %1, %0" : "=v"(a) : "v"(x), "v"(table));
  asm("vpermps %2, %1, %0" : "=v"(b) : "v"(y), "v"(table));
#else
  a = real(x << 28 >> 28);
  b = real(x >> 4);
#endif
}
INL void sorted(const void*, V&, V&) {}
INL void unsorted(const void*, V&, V&) {}
#define FIRST(i) 2 * (i)
#define SECOND(i) 2 * (i) + 1
INL void sorted(const int4*, V& a, V& b) {
  const V x = __builtin_shufflevector(a, b, LIST(FIRST)), y = __builtin_shufflevector(a, b, LIST(SECOND));
  a = x;
  b = y;
}
#undef FIRST
#undef SECOND
#define FIRST(i) (i) % 2 * W + (i) / 2
#define SECOND(i) (i) % 2 * W + (i) / 2 + W / 2
INL void unsorted(const int4*, V& a, V& b) {
  const V x = __builtin_shufflevector(a, b, LIST(FIRST)), y = __builtin_shufflevector(a, b, LIST(SECOND));
  a = x;
  b = y;
}
#undef FIRST
#undef SECOND
// The same of the first n of them, and 0 behind these; nothing else is read.
template <class T> INL void two(const T* p, L n, V& a, V& b) {
  if (n >= 2 * W) return two(p, a, b);
  float line[2 * W] __attribute__((aligned(64))) = {};
  for (L i = 0; i < n; i++) line[i] = (float)num(p[i]);
  a = ld(line);
  b = ld(line + W);
  sorted(p, a, b);
}
INL L pairs_of(L n) { return (n + 2 * W - 1) / (2 * W); }
template <class T> INL const char* address(const T* p) { return (const char*)p; }
INL const char* address(const int4* p) { return (const char*)byte_of(p); }

// What is multiplied at one place of the axes that all of it has.
template <class T, class S> struct Factors {
  const float* x;
  const T* w;
  const S* s;  // null where there are no scales
  float* y;
  L rows, blocks, depth, columns, wb, wu, we, sb, se;
};

// Lanes are columns, which lie side by side in w: `count` of them from `from` on.
template <int R, int C, class T, class S>
static void columns_in_lanes(const Factors<T, S>& f, L row, L from, L count, float* total) {
  constexpr int bytes = __is_same(T, int4) ? C * W : 2 * C * W * sizeof(T);
  const L length = f.blocks * f.depth;
  UNROLL for (int i = 0; i < R * 2 * C; i++) st(total + i * W, V{});
  for (L b = 0; b < f.blocks; b++)
    for (L begin = 0; begin < f.depth; begin += LONG) {
      const L end = f.depth - begin < LONG ? f.depth : begin + LONG;
      const float* const x = f.x + row * length + b * f.depth;
      V a[R][2 * C];
      UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int c = 0; c < 2 * C; c++) a[r][c] = V{};
      const auto summed = [&](auto pair) __attribute__((always_inline)) {
        for (L u = begin; u < end; u++) {
          const T* const p = f.w + b * f.wb + u * f.wu + from;
          const char* const soon = address(p + SOON * f.wu);
          UNROLL for (int i = 0; i < bytes; i += 64) __builtin_prefetch(soon + i, 0, 2);  // see `ahead`
          UNROLL for (int c = 0; c < C; c++) {
            V low, high;
            pair(p + c * 2 * W, count - c * 2 * W, low, high);
            UNROLL for (int r = 0; r < R; r++) {
              const V z = splat(x[r * length + u]);
              a[r][2 * c] += low * z;
              a[r][2 * c + 1] += high * z;
            }
          }
        }
      };
      if (count >= 2 * C * W) summed([](const T* p, L, V& a, V& b) { two(p, a, b); });
      else summed([](const T* p, L n, V& a, V& b) { two(p, n, a, b); });
      UNROLL for (int c = 0; c < C; c++) {
        V low = splat(1.f), high = splat(1.f);
        if (f.s) {
          const S* const s = f.s + b * f.sb + (from + c * 2 * W) * f.se;
          low = some(s, f.se, count - c * 2 * W);
          high = some(s + W * f.se, f.se, count - c * 2 * W - W);
          sorted(f.w, low, high);
        }
        UNROLL for (int r = 0; r < R; r++) {
          float* const t = total + (r * C + c) * 2 * W;
          st(t, ld(t) + a[r][2 * c] * low);
          st(t + W, ld(t + W) + a[r][2 * c + 1] * high);
        }
      }
    }
  for (int r = 0; r < R; r++)
    for (int c = 0; c < C; c++) {
      float* const t = total + (r * C + c) * 2 * W;
      V low = ld(t), high = ld(t + W);
      unsorted(f.w, low, high);
      st(t, low);
      st(t + W, high);
      for (L e = 0; e < 2 * W && c * 2 * W + e < count; e++) f.y[(row + r) * f.columns + from + c * 2 * W + e] = t[e];
    }
}
// Lanes are the terms of a sum, which lie side by side in w; so lie those of x in `line`, with 0 behind the last of them.
template <int R, int C, class T, class S>
static void terms_in_lanes(const Factors<T, S>& f, L row, L from, const float* line) {
  const L pairs = pairs_of(f.depth), length = f.blocks * pairs * 2 * W;
  V total[R][C];
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int c = 0; c < C; c++) total[r][c] = V{};
  for (L b = 0; b < f.blocks; b++)
    for (L begin = 0; begin < pairs; begin += LONG / W) {
      const L end = pairs - begin < LONG / W ? pairs : begin + LONG / W;
      V a[R][C];
      UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int c = 0; c < C; c++) a[r][c] = V{};
      for (L i = begin; i < end; i++)
        UNROLL for (int c = 0; c < C; c++) {
          V low, high;
          two(f.w + b * f.wb + (from + c) * f.we + i * 2 * W, f.depth - i * 2 * W, low, high);
          UNROLL for (int r = 0; r < R; r++) {
            const float* const x = line + r * length + (b * pairs + i) * 2 * W;
            a[r][c] += low * ld(x);
            a[r][c] += high * ld(x + W);
          }
        }
      UNROLL for (int c = 0; c < C; c++)
        UNROLL for (int r = 0; r < R; r++) total[r][c] += a[r][c] * (f.s ? (float)num(f.s[b * f.sb + (from + c) * f.se]) : 1.f);
    }
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int c = 0; c < C; c++)
      f.y[(row + r) * f.columns + from + c] = across(total[r][c], [](V a, V b) { return a + b; });
}

// The rows of x from `row` on as `terms_in_lanes` reads them.
template <class T, class S> static void lay_terms(const Factors<T, S>& f, L row, L rows, float* line) {
  const L pairs = pairs_of(f.depth);
  for (L r = 0; r < rows; r++)
    for (L b = 0; b < f.blocks; b++)
      for (L i = 0; i < pairs; i++, line += 2 * W) {
        const float* const x = f.x + ((row + r) * f.blocks + b) * f.depth + i * 2 * W;
        V low, high;
        two(x, f.depth - i * 2 * W, low, high);
        sorted(f.w, low, high);
        st(line, low);
        st(line + W, high);
      }
}
template <int R, class T, class S> static void some_rows(const Factors<T, S>& f, L row, L from, L count, float* own) {
  if (f.we == 1) {
    constexpr int C = R < 4 ? TWOS : TWOS / 2;  // so that all sums are in registers
    for (L e = 0; e < count; e += C * 2 * W) columns_in_lanes<R, C>(f, row, from + e, count - e, own);
    return;
  }
  lay_terms(f, row, R, own);
  L e = 0;
  for (; e + 4 <= count; e += 4) terms_in_lanes<R, 4>(f, row, from + e, own);
  for (; e < count; e++) terms_in_lanes<R, 1>(f, row, from + e, own);
}
// Behind the strides of all that is given, of which there are `skip`: rows, blocks, depth, columns, the strides of w
// along blocks, terms and columns and of s along blocks and columns, whether there are scales, and how many axes all of it has; of each of these the
// extent, and the strides of x, w and s.
INL L product_room(const L* n) {
  const L laid = n[1] * pairs_of(n[2]), most = TWOS * 2 * W * 4;
  return padded(4 * laid * 2 * W > most ? 4 * laid * 2 * W : most);
}
template <class T, class S> static L run_product(void* const* p, const L* n, float* room, L each, L threads) {
  const T* w;
  if constexpr (__is_same(T, int4)) w = numbers_at(p[1]); else w = (const T*)p[1];
  const L *const axes = n + 11, count = n[10];
  const bool columns = n[6] == 1 || (n[3] == 1 && n[5] != 1);
  if (!columns && n[5] != 1 && n[2] != 1) return 1;
  L outer = 1;
  for (L i = 0; i < count; i++) outer *= axes[4 * i];
  const L width = columns ? TWOS * 2 * W : COLUMNS, tiles = (n[3] + width - 1) / width;
  return over(outer * tiles, threads, [&](L work, float* own, int*) {
    const L place = work / tiles, from = work % tiles * width, left = n[3] - from < width ? n[3] - from : width;
    Factors<T, S> f = {(const float*)p[0], w, n[9] ? (const S*)p[2] : nullptr, (float*)p[3] + place * n[0] * n[3],
                       n[0], n[1], n[2], n[3], n[4], n[5], columns ? 1 : n[6], n[7], n[8]};
    for (L i = count - 1, rest = place; i >= 0; rest /= axes[4 * i], i--) {
      const L at = rest % axes[4 * i];
      f.x += at * axes[4 * i + 1];
      f.w += at * axes[4 * i + 2];
      f.s += f.s ? at * axes[4 * i + 3] : 0;
    }
    L r = 0;
    for (; r + 4 <= n[0]; r += 4) some_rows<4>(f, r, from, left, own);
    for (; r + 2 <= n[0]; r += 2) some_rows<2>(f, r, from, left, own);
    for (; r < n[0]; r++) some_rows<1>(f, r, from, left, own);
  }, room, each);
}
#define PRODUCT(name, T, S, skip)                                                                                      \
  extern "C" L name##_room(const L* n) { return product_room(n + skip); }                                              \
  extern "C" L name(void* const* p, const L* n, const double*, float* room, L each, L threads) {                       \
    return run_product<T, S>(p, n + skip, room, each, threads);                                                        \
  }
