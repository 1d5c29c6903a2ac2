// States of linear recurrences, S_t = g_t S_{t-1} + sum of k v + sum of u (c + w . S_{t-1}), position after position.
// Lanes are columns of S, of which a piece of work has C vectors. A state of d rows lies as d times C vectors.
//
// K, U   numbers of writes k v and of writes u (c + w . S)
// A, B   numbers of vectors that are multiplied with S_t, and of those that are multiplied with S_{t-1}
// EACH   whether every row of S has a gate of its own
#if W == 16
#define MOST 4  // vectors of columns of a piece of work
#else
#define MOST 2
#endif

// An operand or a result with its strides along units, positions and what follows them.
struct Strided { float* p; L n, t, f; };
INL Strided strided(void* const* p, const L* n, int i) { return {(float*)p[i], n[3 * i], n[3 * i + 1], n[3 * i + 2]}; }

// The numbers of one position, side by side.
INL const float* row(const Strided& x, L n, L t, L count, float* room) {
  const float* p = x.p + n * x.n + t * x.t;
  if (x.f == 1) return p;
  for (L i = 0; i < count; i++) room[i] = p[i * x.f];
  return room;
}
// Some columns of one row, and 0 behind the last of them.
template <int C> INL void columns(const Strided& x, L n, L t, L from, L count, V (&a)[C]) {
  const float* p = x.p + n * x.n + t * x.t + from * x.f;
  if (x.f == 1 && count == C * W) {
    UNROLL for (int i = 0; i < C; i++) a[i] = ldu(p + i * W);
    return;
  }
  float room[C * W] __attribute__((aligned(64)));
  for (L i = 0; i < C * W; i++) room[i] = i < count ? p[i * x.f] : 0.f;
  UNROLL for (int i = 0; i < C; i++) a[i] = ld(room + i * W);
}
template <int C> INL void set_columns(const Strided& x, L n, L t, L from, L count, const V (&a)[C]) {
  float* p = x.p + n * x.n + t * x.t + from * x.f;
  if (x.f == 1 && count == C * W) {
    UNROLL for (int i = 0; i < C; i++) stu(p + i * W, a[i]);
    return;
  }
  float room[C * W] __attribute__((aligned(64)));
  UNROLL for (int i = 0; i < C; i++) st(room + i * W, a[i]);
  for (L i = 0; i < count; i++) p[i * x.f] = room[i];
}
template <int C> INL void load_state(const Strided& x, L n, L from, L count, L d, float* s) {
  for (L f = 0; f < d; f++) {
    V a[C];
    columns<C>(x, n, f, from, count, a);
    UNROLL for (int i = 0; i < C; i++) st(s + (f * C + i) * W, a[i]);
  }
}
template <int C> INL void save_state(const Strided& x, L n, L from, L count, L d, const float* s) {
  for (L f = 0; f < d; f++) {
    V a[C];
    UNROLL for (int i = 0; i < C; i++) a[i] = ld(s + (f * C + i) * W);
    set_columns<C>(x, n, f, from, count, a);
  }
}

template <int K, int U, int A, int B> struct Operands {
  enum { COUNT = 2 + 2 * K + 3 * U + A + B };
  Strided gate, first, k[K + 1], v[K + 1], u[U + 1], w[U + 1], c[U + 1], after[A + 1], before[B + 1];
  inline Operands(void* const* p, const L* n, int at) {
    gate = strided(p, n, at++), first = strided(p, n, at++);
    for (int i = 0; i < K; i++) k[i] = strided(p, n, at++), v[i] = strided(p, n, at++);
    for (int i = 0; i < U; i++) u[i] = strided(p, n, at++), w[i] = strided(p, n, at++), c[i] = strided(p, n, at++);
    for (int i = 0; i < A; i++) after[i] = strided(p, n, at++);
    for (int i = 0; i < B; i++) before[i] = strided(p, n, at++);
  }
};

// What R vectors z read of a state.
template <int C, int R> INL void seen_of(const float* s, const float* const (&z)[R + 1], L d, V (&y)[R + 1][C]) {
  UNROLL for (int r = 0; r < R; r++) UNROLL for (int i = 0; i < C; i++) y[r][i] = V{};
  if (R)
    for (L f = 0; f < d; f++)
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int i = 0; i < C; i++)
        y[r][i] += splat(z[r][f]) * ld(s + (f * C + i) * W);
}
// S_t at `made` from S_{t-1} at `s`, and what R vectors z read of S_t.
template <int C, int K, int U, int R, bool EACH>
INL void advance(const float* g, const float* const (&k)[K + 1], const V (&v)[K + 1][C], const float* const (&u)[U + 1],
                 const V (&x)[U + 1][C], const float* const (&z)[R + 1], L d, const float* s, float* made,
                 V (&y)[R + 1][C]) {
  UNROLL for (int r = 0; r < R; r++) UNROLL for (int i = 0; i < C; i++) y[r][i] = V{};
  for (L f = 0; f < d; f++) {
    V a[C];
    UNROLL for (int i = 0; i < C; i++) a[i] = splat(g[EACH ? f : 0]) * ld(s + (f * C + i) * W);
    UNROLL for (int j = 0; j < K; j++) UNROLL for (int i = 0; i < C; i++) a[i] += splat(k[j][f]) * v[j][i];
    UNROLL for (int j = 0; j < U; j++) UNROLL for (int i = 0; i < C; i++) a[i] += splat(u[j][f]) * x[j][i];
    UNROLL for (int i = 0; i < C; i++) st(made + (f * C + i) * W, a[i]);
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int i = 0; i < C; i++) y[r][i] += splat(z[r][f]) * a[i];
  }
}

// One unit's columns from `from` on: results y of the vectors, the last state, and states at borders where there are.
template <int C, int K, int U, int A, int B, bool EACH>
static void forward(const Operands<K, U, A, B>& x, const Strided* y, const Strided& last, const Strided* borders,
                    L n, L points, L d, L e, L border, L from, float* room) {
  constexpr int R = A + U + B;  // what is read of S_t: by `after`, and of the next position by w and `before`
  const L count = e - from < C * W ? e - from : C * W, chunks = (points + border - 1) / border;
  float* const s = room;
  float* pack = room + C * W * d;
  const L each = padded(d);
  load_state<C>(x.first, n, from, count, d, s);
  V seen[R + 1][C];
  const float* z[R + 1] = {};
  auto next = [&](L t) {  // the vectors that read the state before position t
    UNROLL for (int j = 0; j < U; j++) z[A + j] = row(x.w[j], n, t, d, pack + (A + j) * each);
    UNROLL for (int j = 0; j < B; j++) z[A + U + j] = row(x.before[j], n, t, d, pack + (A + U + j) * each);
  };
  if (points) {
    next(0);
    UNROLL for (int j = 0; j < A; j++) z[j] = z[R - 1];  // nothing is made of what these give
    if (U + B) seen_of<C, R>(s, z, d, seen);
  }
  for (L t = 0; t < points; t++) {
    if (borders && t % border == 0) save_state<C>(*borders, n * chunks + t / border, from, count, d, s);
    float* free = pack + R * each;
    const float* g = row(x.gate, n, t, EACH ? d : 1, free);
    free += each;
    const float *k[K + 1], *u[U + 1];
    V v[K + 1][C], added[U + 1][C];
    UNROLL for (int j = 0; j < K; j++) {
      k[j] = row(x.k[j], n, t, d, free);
      free += each;
      columns<C>(x.v[j], n, t, from, count, v[j]);
    }
    UNROLL for (int j = 0; j < U; j++) {
      u[j] = row(x.u[j], n, t, d, free);
      free += each;
      columns<C>(x.c[j], n, t, from, count, added[j]);
      UNROLL for (int i = 0; i < C; i++) added[j][i] += seen[A + j][i];
    }
    UNROLL for (int j = 0; j < B; j++) set_columns<C>(y[A + j], n, t, from, count, seen[A + U + j]);
    UNROLL for (int j = 0; j < A; j++) z[j] = row(x.after[j], n, t, d, pack + j * each);
    next(t + (t + 1 < points));  // of what the last position's own read once more nothing is made
    advance<C, K, U, R, EACH>(g, k, v, u, added, z, d, s, s, seen);
    UNROLL for (int j = 0; j < A; j++) set_columns<C>(y[j], n, t, from, count, seen[j]);
  }
  save_state<C>(last, n, from, count, d, s);
}

// Adds the sum of the lanes of each of d vectors to a number.
static void add_sums(const float* p, L d, float* out) {
  for (L f = 0; f < d; f += W) {
    V a[W];
    UNROLL for (int i = 0; i < W; i++) a[i] = f + i < d ? ld(p + (f + i) * W) : V{};
    turn(a);
    UNROLL for (int h = W / 2; h; h /= 2) UNROLL for (int i = 0; i < h; i++) a[i] += a[i + h];
    for (L i = 0; i < W && f + i < d; i++) out[f + i] += a[0][i];
  }
}
template <int C> INL V joined(const V (&a)[C]) {
  V x = a[0];
  UNROLL for (int i = 1; i < C; i++) x += a[i];
  return x;
}
INL float* at(const Strided& x, L n, L t) { return x.p + n * x.n + t * x.t; }

// One unit's columns from `from` on, the last position first. The numbers of rows are added to, those of columns set.
template <int C, int K, int U, int A, int B, bool EACH>
static void backward(const Operands<K, U, A, B>& x, const Strided* slopes, const Strided& last, const Strided& borders,
                     const Operands<K, U, A, B>& out, L n, L points, L d, L e, L border, L from, float* room) {
  const L count = e - from < C * W ? e - from : C * W, chunks = (points + border - 1) / border, size = C * W * d;
  const L each = padded(d);
  float* const states = room;
  float* const made = states + (border + 1) * size;   // c + w . S of every position of a chunk
  float* const ds = made + border * (U + 1) * C * W;  // the slope by the state
  float* const lanes = ds + size;                     // what is summed over lanes: a vector for each row
  float* const pack = lanes + padded(W * d);
  load_state<C>(last, n, from, count, d, ds);
  for (L chunk = chunks - 1; chunk >= 0; chunk--) {
    const L begin = chunk * border, many = points - begin < border ? points - begin : border;
    load_state<C>(borders, n * chunks + chunk, from, count, d, states);
    V seen[U + 1][C];
    for (L j = 0; j < many; j++) {
      const L t = begin + j;
      const float *k[K + 1], *u[U + 1], *w[U + 1] = {}, *g = row(x.gate, n, t, EACH ? d : 1, pack);
      V v[K + 1][C], added[U + 1][C];
      UNROLL for (int i = 0; i < K; i++) {
        k[i] = row(x.k[i], n, t, d, pack + (1 + i) * each);
        columns<C>(x.v[i], n, t, from, count, v[i]);
      }
      UNROLL for (int i = 0; i < U; i++) {
        u[i] = row(x.u[i], n, t, d, pack + (1 + K + i) * each);
        w[i] = row(x.w[i], n, j ? t + (j + 1 < many) : t, d, pack + (1 + K + U + i) * each);
      }
      if (!j) {
        seen_of<C, U>(states, w, d, seen);
        UNROLL for (int i = 0; i < U; i++)
          w[i] = row(x.w[i], n, t + (j + 1 < many), d, pack + (1 + K + U + i) * each);
      }
      UNROLL for (int i = 0; i < U; i++) {
        columns<C>(x.c[i], n, t, from, count, added[i]);
        UNROLL for (int h = 0; h < C; h++) {
          added[i][h] += seen[i][h];
          st(made + ((j * U + i) * C + h) * W, added[i][h]);
        }
      }
      advance<C, K, U, U, EACH>(g, k, v, u, added, w, d, states + j * size, states + (j + 1) * size, seen);
    }
    for (L j = many - 1; j >= 0; j--) {
      const L t = begin + j;
      const float *before = states + j * size, *after = before + size;
      float* free = pack;
      auto take = [&](const Strided& one, L length) { return row(one, n, t, length, (free += each) - each); };
      const float* g = take(x.gate, EACH ? d : 1);
      V value[C], slope[C], inner[U + 1][C], dg[C];
      auto summed = [&](const Strided& one) { add_sums(lanes, d, at(one, n, t)); };
      // What a vector q read of a state has this slope: adds to the slope by the state and by q.
      auto was_read = [&](const Strided& one, const float* state, const V (&given)[C], const Strided& made_of) {
        const float* q = take(one, d);
        for (L f = 0; f < d; f++) {
          V a[C];
          UNROLL for (int h = 0; h < C; h++) {
            float* const p = ds + (f * C + h) * W;
            st(p, ld(p) + splat(q[f]) * given[h]);
            a[h] = ld(state + (f * C + h) * W) * given[h];
          }
          st(lanes + f * W, joined<C>(a));
        }
        summed(made_of);
      };
      // A vector k wrote this value: the slope by the value, and adds to that by k.
      auto was_written = [&](const Strided& one, const V (&value)[C], V (&by)[C], const Strided& made_of) {
        const float* k = take(one, d);
        UNROLL for (int h = 0; h < C; h++) by[h] = V{};
        for (L f = 0; f < d; f++) {
          V a[C];
          UNROLL for (int h = 0; h < C; h++) {
            const V s = ld(ds + (f * C + h) * W);
            by[h] += splat(k[f]) * s;
            a[h] = s * value[h];
          }
          st(lanes + f * W, joined<C>(a));
        }
        summed(made_of);
      };
      UNROLL for (int i = 0; i < A; i++) {
        columns<C>(slopes[i], n, t, from, count, slope);
        was_read(x.after[i], after, slope, out.after[i]);
      }
      UNROLL for (int i = 0; i < K; i++) {
        columns<C>(x.v[i], n, t, from, count, value);
        was_written(x.k[i], value, slope, out.k[i]);
        set_columns<C>(out.v[i], n, t, from, count, slope);
      }
      UNROLL for (int i = 0; i < U; i++) {
        UNROLL for (int h = 0; h < C; h++) value[h] = ld(made + ((j * U + i) * C + h) * W);
        was_written(x.u[i], value, inner[i], out.u[i]);
        set_columns<C>(out.c[i], n, t, from, count, inner[i]);
      }
      UNROLL for (int h = 0; h < C; h++) dg[h] = V{};
      for (L f = 0; f < d; f++) {
        V a[C];
        UNROLL for (int h = 0; h < C; h++) {
          float* const p = ds + (f * C + h) * W;
          const V s = ld(p);
          a[h] = s * ld(before + (f * C + h) * W);
          if (!EACH) dg[h] += a[h];
          st(p, splat(g[EACH ? f : 0]) * s);
        }
        if (EACH) st(lanes + f * W, joined<C>(a));
      }
      if (EACH) summed(out.gate);
      else {
        st(lanes, joined<C>(dg));
        add_sums(lanes, 1, at(out.gate, n, t));
      }
      UNROLL for (int i = 0; i < U; i++) was_read(x.w[i], before, inner[i], out.w[i]);
      UNROLL for (int i = 0; i < B; i++) {
        columns<C>(slopes[A + i], n, t, from, count, slope);
        was_read(x.before[i], before, slope, out.before[i]);
      }
    }
  }
  save_state<C>(out.first, n, from, count, d, ds);
}

// Calls f with the number of vectors of a piece of work: as many as there are columns for, if every thread has a piece.
template <class F> static L by_columns(L units, L e, L threads, F f) {
  L vectors = 1;
  while (vectors < MOST && vectors * W < e && units * ((e + 2 * vectors * W - 1) / (2 * vectors * W)) >= threads)
    vectors *= 2;
#if MOST == 4
  if (vectors == 4) return f(Many<4>{});
#endif
  return vectors == 2 ? f(Many<2>{}) : f(Many<1>{});
}
// Arguments: the operands, the results of the vectors, the last state, and states at borders if `kept`; units,
// positions, rows and columns of a state, positions between two borders.
template <int K, int U, int A, int B, bool EACH>
static L run_forward(void* const* p, const L* n, bool kept, float* room, L each, L threads) {
  constexpr int first = Operands<K, U, A, B>::COUNT;
  const Operands<K, U, A, B> x(p, n, 0);
  Strided y[A + B + 1];
  for (int i = 0; i < A + B; i++) y[i] = strided(p, n, first + i);
  const Strided last = strided(p, n, first + A + B), borders = kept ? strided(p, n, first + A + B + 1) : last;
  const L* const sizes = n + 3 * (first + A + B + 1 + kept);
  const L units = sizes[0], points = sizes[1], d = sizes[2], e = sizes[3], border = sizes[4];
  return by_columns(units, e, threads, [&](auto vectors) {
    constexpr int C = decltype(vectors)::value;
    const L parts = (e + C * W - 1) / (C * W);
    return over(units * parts, threads, [&](L work, float* own, int*) {
      forward<C, K, U, A, B, EACH>(x, y, last, kept ? &borders : nullptr, work / parts, points, d, e,
                                   border, work % parts * C * W, own);
    }, room, each);
  });
}
// Arguments: the operands, the slopes by the results of the vectors and by the last state, the states at borders, and
// the slopes by the operands, which are 0; then the sizes.
template <int K, int U, int A, int B, bool EACH>
static L run_backward(void* const* p, const L* n, float* room, L each, L threads) {
  constexpr int first = Operands<K, U, A, B>::COUNT, C = 2;
  const Operands<K, U, A, B> x(p, n, 0), out(p, n, first + A + B + 2);
  Strided slopes[A + B + 1];
  for (int i = 0; i < A + B; i++) slopes[i] = strided(p, n, first + i);
  const Strided last = strided(p, n, first + A + B), borders = strided(p, n, first + A + B + 1);
  const L* const sizes = n + 3 * (2 * first + A + B + 2);
  const L units = sizes[0], points = sizes[1], d = sizes[2], e = sizes[3], border = sizes[4];
  return over(units, threads, [&](L unit, float* own, int*) {  // units alone: columns of one add to the same numbers
    for (L from = 0; from < e; from += C * W)
      backward<C, K, U, A, B, EACH>(x, slopes, last, borders, out, unit, points, d, e, border, from, own);
  }, room, each);
}
#define RECURRENCE(name, K, U, A, B, EACH)                                                                             \
  static L name##_vectors(L d) { return (1 + K + 2 * U + A + B) * padded(d); }  /* vectors of one position */           \
  static const L* name##_sizes(const L* n, L more) { return n + 3 * (Operands<K, U, A, B>::COUNT + A + B + 1 + more); }\
  extern "C" L name##_room(const L* n) {                                                                               \
    return padded(MOST * W * name##_sizes(n, 0)[2]) + name##_vectors(name##_sizes(n, 0)[2]);                            \
  }                                                                                                                    \
  extern "C" L name##_kept_room(const L* n) {                                                                          \
    return padded(MOST * W * name##_sizes(n, 1)[2]) + name##_vectors(name##_sizes(n, 1)[2]);                            \
  }                                                                                                                    \
  extern "C" L name##_back_room(const L* n) {                                                                          \
    const L* sizes = name##_sizes(n, 1 + Operands<K, U, A, B>::COUNT); const L d = sizes[2], border = sizes[4];        \
    return 2 * W * ((border + 2) * d + border * (U + 1)) + padded(W * d) + name##_vectors(d);                           \
  }                                                                                                                    \
  extern "C" L name(void* const* p, const L* n, const double*, float* room, L each, L threads) {                       \
    return run_forward<K, U, A, B, EACH>(p, n, false, room, each, threads);                                            \
  }                                                                                                                    \
  extern "C" L name##_kept(void* const* p, const L* n, const double*, float* room, L each, L threads) {                \
    return run_forward<K, U, A, B, EACH>(p, n, true, room, each, threads);                                             \
  }                                                                                                                    \
  extern "C" L name##_back(void* const* p, const L* n, const double*, float* room, L each, L threads) {                \
    return run_backward<K, U, A, B, EACH>(p, n, room, each, threads);                                                  \
  }

// S_t = g_t S_{t-1} + a_t for each of n numbers, or S_t = max(g_t + S_{t-1}, a_t). Arguments: gates and addends by
// position, the numbers before the first position, the results.
template <bool LARGEST> static L run_scan(void* const* p, const L* n, float* room, L each, L threads) {
  constexpr L C = 16 * W;  // numbers of a piece of work
  const float *gate = (float*)p[0], *plus = (float*)p[1], *first = (float*)p[2];
  float* const out = (float*)p[3];
  const L g = n[0], a = n[2], o = n[5], points = n[7], count = n[8];  // strides of 2, 2, 1 and 2 axes
  return over((count + C - 1) / C, threads, [&](L work, float*, int*) {
    const L from = work * C, many = count - from < C ? count - from : C;
    double s[C];  // a sum over all positions
    for (L i = 0; i < many; i++) s[i] = first[from + i];
    for (L t = 0; t < points; t++) {
      const float *x = gate + t * g + from, *y = plus + t * a + from;
      float* const z = out + t * o + from;
      for (L i = 0; i < many; i++) {
        const double moved = LARGEST ? x[i] + s[i] : x[i] * s[i] + y[i];
        z[i] = (float)(s[i] = !LARGEST || moved > y[i] || moved != moved ? moved : y[i]);
      }
    }
  }, room, each);
}
#define SCAN(name)                                                                                                     \
  extern "C" L name##_room(const L*) { return 0; }                                                                     \
  extern "C" L name(void* const* p, const L* n, const double*, float* room, L each, L threads) {                       \
    return run_scan<false>(p, n, room, each, threads);                                                                 \
  }                                                                                                                    \
  extern "C" L name##_largest_room(const L*) { return 0; }                                                             \
  extern "C" L name##_largest(void* const* p, const L* n, const double*, float* room, L each, L threads) {             \
    return run_scan<true>(p, n, room, each, threads);                                                                  \
  }
