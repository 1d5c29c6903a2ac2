// Vectors whose lanes are the rows of a tile, and what kernels do with them. No header is included.
//
// W   lanes of a vector: those of the machine's registers
// QV  vectors of a tile of rows
// M   rows of a tile
// DATA  the type of the tensors: float, bf16 or f16
// RANGED  the same, but float where that is f16: for sums that a factor may bring back into its range
#if defined(__AVX512F__)
#define W 16
#define LIST(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#elif defined(__AVX2__)
#define W 8
#define LIST(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#else
#define W 4
#define LIST(f) f(0), f(1), f(2), f(3)
#endif
#ifndef QV
#define QV 2
#endif
#define M (QV * W)
#ifndef TILE
#define TILE 256  // positions of the stream in a tile
#endif
#define PART 2048  // positions of a part of the stream, at least
#define SHARES 32  // pieces of work that are wanted of a call
#define INL static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

typedef long long L;
typedef unsigned int u32;
typedef float V __attribute__((vector_size(W * 4), may_alias));
typedef int I __attribute__((vector_size(W * 4), may_alias));
typedef double D __attribute__((vector_size(W * 8), may_alias));
typedef float VU __attribute__((vector_size(W * 4), aligned(4), may_alias));

// Numbers of half the width: stored so, computed with as float.
struct bf16 { unsigned short bits; };
#if defined(__ARM_FP16_FORMAT_IEEE)
#define FLOAT16 __fp16
#elif defined(__FLT16_MAX__)
#define FLOAT16 _Float16
#endif
#if defined(FLOAT16)
struct f16 { FLOAT16 value; };
#endif
template <class T> struct Ranged { typedef T type; };
#if defined(FLOAT16)
template <> struct Ranged<f16> { typedef float type; };
#endif
typedef Ranged<DATA>::type RANGED;
// Numbers of few bits: what is stored so is a number of the type, or none.
typedef signed char int8;
struct e4m3 { unsigned char bits; };
struct e5m2 { unsigned char bits; };
// Two numbers of 4 bits in a byte, the first in its lower half. An address counts halves: it is twice that of the byte, and
// 1 more for the upper half. Nothing is read there but by what knows that: `num`, `near` and `ahead`.
struct int4 {};
INL const int4* numbers_at(const void* p) { return (const int4*)((L)p * 2); }
INL const unsigned char* byte_of(const int4* p) { return (const unsigned char*)((L)p >> 1); }
INL float few(unsigned bits, int digits, float scale, unsigned none) {  // the exponent of a float is moved
  u32 size = bits & 0x7f, sign = (bits & 0x80) << 24;
  float y = __builtin_bit_cast(float, size << (23 - digits)) * scale;
  y = size >= none ? size == none && digits == 2 ? __builtin_inff() : __builtin_nanf("") : y;
  return __builtin_bit_cast(float, __builtin_bit_cast(u32, y) | sign);
}
INL unsigned char code(float x, int digits, float scale) {
  u32 b = __builtin_bit_cast(u32, x), sign = b >> 24 & 0x80;
  float size = __builtin_fabsf(x) * scale;
  return (unsigned char)(x != x ? 0x7f : (__builtin_bit_cast(u32, size) >> (23 - digits)) | sign);
}
INL float num(int8 x) { return (float)x; }
INL float num(const int4& x) { return (float)((int)((u32)*byte_of(&x) << ((L)&x & 1 ? 24 : 28)) >> 28); }
INL float num(e4m3 x) { return few(x.bits, 3, 0x1p120f, 0x7f); }
INL float num(e5m2 x) { return few(x.bits, 2, 0x1p112f, 0x7c); }
INL void put(int8* p, float x) { *p = x != x ? 0 : (int8)x; }
INL void put(e4m3* p, float x) { p->bits = code(x, 3, 0x1p-120f); }
INL void put(e5m2* p, float x) { p->bits = code(x, 2, 0x1p-112f); }
INL float num(float x) { return x; }
INL double num(double x) { return x; }
INL L num(L x) { return x; }
INL bool num(bool x) { return x; }
INL float num(bf16 x) { u32 b = (u32)x.bits << 16; return __builtin_bit_cast(float, b); }
INL void put(float* p, float x) { *p = x; }
INL void put(double* p, double x) { *p = x; }
INL void put(L* p, L x) { *p = x; }
INL void put(bool* p, bool x) { *p = x; }
INL void put(bf16* p, float x) {  // to the nearest, ties to even; what is no number stays so
  u32 b = __builtin_bit_cast(u32, x);
  p->bits = x != x ? 0x7fc0 : (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
#if defined(FLOAT16)
INL float num(f16 x) { return (float)x.value; }
INL void put(f16* p, float x) { p->value = (FLOAT16)x; }
#endif

#define SAME(i) x
INL V splat(float x) { return V{LIST(SAME)}; }
INL I splat(int x) { return I{LIST(SAME)}; }
INL I splat(L y) { int x = (int)y; return I{LIST(SAME)}; }
INL D splat(double x) { return D{LIST(SAME)}; }
INL I splat(bool y) { int x = y ? -1 : 0; return I{LIST(SAME)}; }
#undef SAME
#define PLACE(i) i
static const I iota = {LIST(PLACE)};
#undef PLACE
INL I leading(L n) { return iota < splat(n < W ? n : (L)W); }  // the first n lanes; all where n is larger
INL V ld(const float* p) { return *(const V*)p; }
INL void st(float* p, V x) { *(V*)p = x; }
INL V ldu(const float* p) { return *(const VU*)p; }
INL void stu(float* p, V x) { *(VU*)p = x; }
INL V real(V x) { return x; }
INL V real(I x) { return __builtin_convertvector(x, V); }
INL V real(D x) { return __builtin_convertvector(x, V); }
INL float real(float x) { return x; }
INL float real(double x) { return (float)x; }
INL float real(L x) { return (float)x; }
INL D exact(I x) { return __builtin_convertvector(x, D); }
INL D exact(V x) { return __builtin_convertvector(x, D); }
INL D exact(D x) { return x; }
INL double exact(double x) { return x; }
INL double exact(float x) { return x; }
INL double exact(L x) { return (double)x; }
typedef long long LL __attribute__((vector_size(W * 8), may_alias));
INL I mask(LL x) { return __builtin_convertvector(x, I); }
INL I mask(I x) { return x; }
INL bool mask(bool x) { return x; }

// A truth value as a number: 1 or 0.
INL V real_truth(I x) { return real(x & splat(1)); }
INL D exact_truth(I x) { return exact(x & splat(1)); }
INL I integer_truth(I x) { return x & splat(1); }
INL float real_truth(bool x) { return x; }
INL double exact_truth(bool x) { return x; }
INL L integer_truth(bool x) { return x; }

// The larger and the smaller of two numbers; what is no number stays so.
INL V larger(V a, V b) { V c = a > b ? a : b; return a != a ? a : c; }
INL V smaller(V a, V b) { V c = a < b ? a : b; return a != a ? a : c; }
INL I larger(I a, I b) { return a > b ? a : b; }
INL I smaller(I a, I b) { return a < b ? a : b; }
INL D larger(D a, D b) { D c = a > b ? a : b; return a != a ? a : c; }
INL D smaller(D a, D b) { D c = a < b ? a : b; return a != a ? a : c; }
INL float larger(float a, float b) { return a != a ? a : a > b ? a : b; }
INL float smaller(float a, float b) { return a != a ? a : a < b ? a : b; }
INL double larger(double a, double b) { return a != a ? a : a > b ? a : b; }
INL double smaller(double a, double b) { return a != a ? a : a < b ? a : b; }
INL L larger(L a, L b) { return a > b ? a : b; }
INL L smaller(L a, L b) { return a < b ? a : b; }
// The running maximum that others are relative to: what is no number shows in those.
INL V top(V a, V b) { return b > a ? b : a; }
// A number within limits; what is no number stays so. It is one instruction, of which compilers make two.
#if defined(__AVX__)
INL V at_most(V x, V limit) { V y; asm("vminps %2, %1, %0" : "=v"(y) : "v"(limit), "v"(x)); return y; }
INL V at_least(V x, V limit) { V y; asm("vmaxps %2, %1, %0" : "=v"(y) : "v"(limit), "v"(x)); return y; }
#else
INL V at_most(V x, V limit) { return limit < x ? limit : x; }
INL V at_least(V x, V limit) { return limit > x ? limit : x; }
#endif
INL V choose(I c, V a, V b) { return c ? a : b; }
INL I choose(I c, I a, I b) { return c ? a : b; }
INL D choose(I c, D a, D b) { LL w = __builtin_convertvector(c, LL); return w ? a : b; }
INL float choose(bool c, float a, float b) { return c ? a : b; }
INL double choose(bool c, double a, double b) { return c ? a : b; }
INL L choose(bool c, L a, L b) { return c ? a : b; }
INL L floored(L a, L b) { if (!b) return 0; L q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
INL L ceiled(L a, L b) { return -floored(-a, b); }
INL L rest(L a, L b) { return b ? a - floored(a, b) * b : 0; }
#define BY_LANE(name, type, f) INL type name(type a, type b) { type y; for (int i = 0; i < W; i++) y[i] = f; return y; }
BY_LANE(floored, I, (int)floored((L)a[i], (L)b[i]))
BY_LANE(ceiled, I, (int)ceiled((L)a[i], (L)b[i]))
BY_LANE(rest, I, (int)rest((L)a[i], (L)b[i]))
// What a real number is beyond a multiple of b, of the sign of b; of a 0 the sign is that of b.
INL float rest(float a, float b) { float r = __builtin_fmodf(a, b); return r == 0 ? __builtin_copysignf(r, b) : (r < 0) != (b < 0) ? r + b : r; }
INL double rest(double a, double b) { double r = __builtin_fmod(a, b); return r == 0 ? __builtin_copysign(r, b) : (r < 0) != (b < 0) ? r + b : r; }
BY_LANE(rest, V, rest(a[i], b[i]))
BY_LANE(rest, D, rest(a[i], b[i]))
BY_LANE(power, V, __builtin_powf(a[i], b[i]))
BY_LANE(power, D, __builtin_pow(a[i], b[i]))
INL float power(float a, float b) { return __builtin_powf(a, b); }
INL double power(double a, double b) { return __builtin_pow(a, b); }
template <int n, class T> INL T whole_power(T x) {
  if constexpr (n == 1) return x;
  else if constexpr (n % 2 == 0) { T y = whole_power<n / 2>(x); return y * y; }
  else return whole_power<n - 1>(x) * x;
}
#define FUNCTION(name, f, d) \
  INL float name(float x) { return f(x); } \
  INL double name(double x) { return d(x); } \
  INL V name(V x) { V y; for (int i = 0; i < W; i++) y[i] = f(x[i]); return y; } \
  INL D name(D x) { D y; for (int i = 0; i < W; i++) y[i] = d(x[i]); return y; }
FUNCTION(logarithm, __builtin_logf, __builtin_log)
FUNCTION(log1p_, __builtin_log1pf, __builtin_log1p)
FUNCTION(expm1_, __builtin_expm1f, __builtin_expm1)
FUNCTION(sine, __builtin_sinf, __builtin_sin)
FUNCTION(cosine, __builtin_cosf, __builtin_cos)
FUNCTION(erf_, __builtin_erff, __builtin_erf)
FUNCTION(erfc_, __builtin_erfcf, __builtin_erfc)
FUNCTION(root, __builtin_sqrtf, __builtin_sqrt)
FUNCTION(floor_, __builtin_floorf, __builtin_floor)
FUNCTION(ceil_, __builtin_ceilf, __builtin_ceil)
INL float size(float x) { return __builtin_fabsf(x); }
INL double size(double x) { return __builtin_fabs(x); }
INL V size(V x) { return (V)((I)x & splat(0x7fffffff)); }
INL D size(D x) { D y; for (int i = 0; i < W; i++) y[i] = __builtin_fabs(x[i]); return y; }
INL L size(L x) { return x < 0 ? -x : x; }
INL I size(I x) { return x < 0 ? -x : x; }

// The nearest number of so many binary digits after the leading one, the even one of two; the step does not shrink below
// the exponent `least`. A sum with a number whose last digit is worth a step drops what is smaller.
template <int bits, int least> INL V rounded(V x, float low, float high) {
  V first = splat(__builtin_ldexpf(1.f, least));
  x = at_least(at_most(x, splat(high)), splat(low));
  V binade = (V)((I)x & splat(0x7f800000));
  V anchor = (binade > first ? binade : first) * __builtin_ldexpf(1.5f, 23 - bits);
  V y = x + anchor - anchor, none = x * 0.f;  // a 0 has the sign of x
  return y == 0.f ? none : y;
}
template <int bits, int least> INL D rounded(D x, double low, double high) {
  D top = splat(high), bottom = splat(low), first = splat(__builtin_ldexp(1., least));
  x = x > top ? top : x;
  x = x < bottom ? bottom : x;
  D binade = (D)((LL)x & 0x7ff0000000000000LL);
  D anchor = (binade > first ? binade : first) * __builtin_ldexp(1.5, 52 - bits);
  D y = x + anchor - anchor, none = x * 0.;
  return y == 0. ? none : y;
}
template <int bits, int least> INL float rounded(float x, float low, float high) {
  return rounded<bits, least>(splat(x), low, high)[0];
}
template <int bits, int least> INL double rounded(double x, double low, double high) {
  return rounded<bits, least>(splat(x), low, high)[0];
}

// 2^x within 2 ulp: 0 from 2^-126 or 2^-125.5 down, infinite from 2^128 on, no number where x is none.
#if defined(__AVX512DQ__)
// One instruction takes off the whole number below x, one puts it into the exponent. The polynomial is 2^f, 0 <= f < 1.
INL V exp2_(V x) {
  V f, low = splat(-126.f), y;
  unsigned short there;
  asm("vreduceps $1, %1, %0" : "=v"(f) : "v"(x));
  V p = splat(2.186578479e-04f);
  p = p * f + splat(1.239133183e-03f);
  p = p * f + splat(9.684186310e-03f);
  p = p * f + splat(5.548063020e-02f);
  p = p * f + splat(2.402304545e-01f);
  p = p * f + splat(6.931469328e-01f);
  p = p * f + splat(1.f);
  asm("vcmpps $21, %2, %1, %0" : "=Yk"(there) : "v"(x), "v"(low));  // not below; what is no number is not
  asm("vscalefps %2, %1, %0%{%3%}%{z%}" : "=v"(y) : "v"(p), "v"(x), "Yk"(there));
  return y;
}
#else
// The polynomial is 2 * 2^f on -1/2 <= f <= 1/2; the low bits of t are the exponent of 2^(n - 1), which is 0 at its lower
// end.
INL V exp2_(V x) {
  const V magic = splat(12582912.f + 126.f);
  x = at_least(at_most(x, splat(129.f)), splat(-126.f));
  V t = x + magic;
  V f = x - (t - magic);
  V p = splat(3.070672363e-04f);
  p = p * f + splat(2.679774889e-03f);
  p = p * f + splat(1.923687472e-02f);
  p = p * f + splat(1.110066494e-01f);
  p = p * f + splat(4.804529583e-01f);
  p = p * f + splat(1.386294406e+00f);
  p = p * f + splat(2.f);
  return p * (V)((I)t << 23);
}
#endif
// e^x: the multiple of ln 2 is taken off in two parts.
INL V exp_(V x) {
  V low = splat(-87.f), y = at_least(at_most(x, splat(89.f)), low);
  const V magic = splat(12582912.f + 126.f);
  V t = y * 1.44269504f + magic;
  V n = t - magic;
  V r = y - n * 0.693359375f + n * 2.12194440e-4f;
  V p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * r * r + r + 1.f;
  p = (p + p) * (V)((I)t << 23);
  return x < low ? V{} : p;
}
INL D exp_(D x) { D y; for (int i = 0; i < W; i++) y[i] = __builtin_exp(x[i]); return y; }
INL D exp2_(D x) { D y; for (int i = 0; i < W; i++) y[i] = __builtin_exp2(x[i]); return y; }
INL float exp_(float x) { return __builtin_expf(x); }
INL double exp_(double x) { return __builtin_exp(x); }
INL float exp2_(float x) { return __builtin_exp2f(x); }
INL double exp2_(double x) { return __builtin_exp2(x); }
// tanh x is E / (E + 2), where E is e^2x - 1 and keeps its digits near 0; from 9.02 on it is 1. An estimate y of that is
// corrected by what it leaves, E - y (E + 2), of which no sum E + 2 is rounded.
INL V tanh_(V x) {
  V a = at_most(size(x), splat(9.02f));
  const V magic = splat(12582912.f + 127.f);
  V t = a * 2.885390082f + magic;
  V r = a - (t - magic) * 0.34657359028f;  // e^2x is 2^n e^2r
  V p = splat(8.912866813e-02f);
  p = p * r + splat(2.676261053e-01f);
  p = p * r + splat(6.666648574e-01f);
  p = p * r + splat(1.333326093e+00f);
  p = p * r + splat(2.f);
  V s = (V)((I)t << 23);
  V e = s * (p * (r * r) + (r + r)) + (s - 1.f);
  V d = e + 2.f;
#if defined(__AVX512F__)
  V i;
  asm("vrcp14ps %1, %0" : "=v"(i) : "v"(d));
#else
  V i = 1.f / d;
#endif
  V y = e * i;
  y += i * ((e - 2.f * y) - e * y);
#if !defined(__FP_FAST_FMAF) || !defined(__OPTIMIZE__)  // where products are rounded before they are added
  y = e > 1.f ? e / d : y;
#endif
  return (V)((I)y | ((I)x & splat((int)0x80000000)));
}
INL D tanh_(D x) { D y; for (int i = 0; i < W; i++) y[i] = __builtin_tanh(x[i]); return y; }
INL float tanh_(float x) { return __builtin_tanhf(x); }
INL double tanh_(double x) { return __builtin_tanh(x); }
#define INFINITE __builtin_inff()

// A W x W block turned: rows become lanes.
#if W > 1
#define LOW(i) ((i) & K_ ? (i) - K_ + W : (i))
#define HIGH(i) ((i) & K_ ? (i) + W : (i) + K_)
template <int K_> INL void exchange(V (&a)[W]) {
  UNROLL for (int i = 0; i < W; i++)
    if (!(i & K_)) {
      V x = __builtin_shufflevector(a[i], a[i + K_], LIST(LOW)), y = __builtin_shufflevector(a[i], a[i + K_], LIST(HIGH));
      a[i] = x;
      a[i + K_] = y;
    }
}
INL void turn(V (&a)[W]) {
  exchange<1>(a);
  exchange<2>(a);
#if W > 4
  exchange<4>(a);
#endif
#if W > 8
  exchange<8>(a);
#endif
}
// The sums of W vectors, one in each lane: two become one, again and again.
template <int K_> INL void joined(V (&a)[W]) {
  UNROLL for (int i = 0; i < W; i += 2 * K_)
    a[i] = __builtin_shufflevector(a[i], a[i + K_], LIST(LOW)) + __builtin_shufflevector(a[i], a[i + K_], LIST(HIGH));
}
INL V sums(V (&a)[W]) {
  joined<1>(a);
  joined<2>(a);
#if W > 4
  joined<4>(a);
#endif
#if W > 8
  joined<8>(a);
#endif
  return a[0];
}
#endif

// W numbers that lie side by side. One instruction widens them, which compilers make four of; sanitizers would not see
// what it reads.
#if defined(__AVX512F__) && W == 16 && !defined(__SANITIZE_ADDRESS__)
#define WIDEN 1
#else
#define WIDEN 0
#endif
INL V near(const float* p) { return ldu(p); }
typedef int8 B __attribute__((vector_size(W), may_alias, aligned(1)));
INL I bytes(const void* p) {  // each with its sign
#if WIDEN
  I x;
  asm("vpmovsxbd %1, %0" : "=v"(x) : "m"(*(const B*)p));
  return x;
#else
  typedef short S __attribute__((vector_size(W * 2), may_alias));
  return __builtin_convertvector(__builtin_convertvector(*(const B*)p, S), I);
#endif
}
INL V near(const int8* p) { return __builtin_convertvector(bytes(p), V); }
INL V near(const int4* p) {  // the bits of each number are moved to the upper end of its lane, and back with its sign
  unsigned long long x = 0;
  __builtin_memcpy(&x, byte_of(p), W / 2);
  if ((L)p & 1) x = x >> 4 | (unsigned long long)byte_of(p)[W / 2] << (4 * W - 4);
#define WORD(i) (int)(x >> (i) / 8 * 32)
#define BEHIND(i) 28 - (i) % 8 * 4
  I words = {LIST(WORD)}, behind = {LIST(BEHIND)};
#undef WORD
#undef BEHIND
  return __builtin_convertvector(words << behind >> 28, V);
}
INL V few(I bits, int digits, float scale, int none) {
  I size = bits & 0x7f, sign = bits & (int)0x80000000;
  V y = (V)(size << (23 - digits)) * scale;
  V past = digits == 2 ? choose(size == none, splat(INFINITE), splat(__builtin_nanf(""))) : splat(__builtin_nanf(""));
  return (V)((I)choose(size >= none, past, y) | sign);
}
INL V near(const e4m3* p) { return few(bytes(p), 3, 0x1p120f, 0x7f); }
INL V near(const e5m2* p) { return few(bytes(p), 2, 0x1p112f, 0x7c); }
INL V near(const bf16* p) {
  typedef unsigned short H __attribute__((vector_size(W * 2), aligned(2), may_alias));
  typedef u32 U4 __attribute__((vector_size(W * 4), may_alias));
#if WIDEN
  U4 x;
  asm("vpmovzxwd %1, %0" : "=v"(x) : "m"(*(const H*)p));
#else
  U4 x = __builtin_convertvector(*(const H*)p, U4);
#endif
  return (V)(x << 16);
}
#if defined(FLOAT16)
INL V near(const f16* p) { V y; for (int i = 0; i < W; i++) y[i] = num(p[i]); return y; }
#endif
template <class T> INL void beside(T* p, V x) { for (L i = 0; i < W; i++) put(p + i, x[i]); }
INL void beside(float* p, V x) { stu(p, x); }
INL void beside(bf16* p, V x) {
  typedef unsigned short H __attribute__((vector_size(W * 2), aligned(2), may_alias));
  typedef u32 U4 __attribute__((vector_size(W * 4), may_alias));
  U4 b = (U4)x, none = (U4)(x != x);
  b = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
  *(H*)p = __builtin_convertvector((none & 0x7fc0) | (~none & b), H);
}
INL void beside(int8* p, V x) {
  typedef short S __attribute__((vector_size(W * 2), may_alias));
  V y = x != x ? V{} : x;
  *(B*)p = __builtin_convertvector(__builtin_convertvector(__builtin_convertvector(y, I), S), B);
}
// All lanes of a vector folded to one number, by halves.
#if W > 1
#define TURNED(i) (((i) + K_) % W)
template <int K_, class F> INL V halves(V a, F f) {
  a = f(a, __builtin_shufflevector(a, a, LIST(TURNED)));
  if constexpr (K_ > 1) a = halves<K_ / 2>(a, f);
  return a;
}
template <class F> INL float across(V a, F f) { return halves<W / 2>(a, f)[0]; }
#else
template <class F> INL float across(V a, F f) { return a[0]; }
#endif
// A vector of n or more numbers at p, p + stride and so on; 0 in the lanes of those that are not there.
template <class T> INL V some(const T* p, L stride, L n) {
  if (stride == 1 && n >= W) return near(p);
  V x = {};
  for (L i = 0; i < W && i < n; i++) x[i] = (float)num(p[i * stride]);
  return x;
}
INL D some(const double* p, L stride, L n) {
  D x = {};
  for (L i = 0; i < W && i < n; i++) x[i] = p[i * stride];
  return x;
}
INL I some(const bool* p, L stride, L n) {
  I x = {};
  for (L i = 0; i < W && i < n; i++) x[i] = p[i * stride] ? -1 : 0;
  return x;
}
// Values of up to M rows at p + row * rs, as lanes; 0 in the lanes of rows that are not there.
template <class T> INL void lanes(const T* p, L rs, L rows, V (&x)[QV]) {
  UNROLL for (int i = 0; i < QV; i++) x[i] = some(p + i * W * rs, rs, rows - i * W);
}
INL void lanes(const double* p, L rs, L rows, D (&x)[QV]) {
  for (int i = 0; i < QV; i++) for (int j = 0; j < W; j++) x[i][j] = i * W + j < rows ? p[(i * W + j) * rs] : 0;
}
INL void lanes(const bool* p, L rs, L rows, I (&x)[QV]) {
  for (int i = 0; i < QV; i++) for (int j = 0; j < W; j++) x[i][j] = i * W + j < rows && p[(i * W + j) * rs] ? -1 : 0;
}
// Whole numbers have 32 bits in lanes; one that needs more sets the flag, and the call is left to torch.
INL int narrow(L x, int* bad) { if (x > 1000000000 || x < -1000000000) { *bad = 1; return 0; } return (int)x; }
INL L whole(L x, int* bad) { return narrow(x, bad); }
INL void lanes(const L* p, L rs, L rows, I (&x)[QV], int* bad) {
  for (int i = 0; i < QV; i++) for (int j = 0; j < W; j++) x[i][j] = i * W + j < rows ? narrow(p[(i * W + j) * rs], bad) : 0;
}
INL I some(const L* p, L stride, L n, int* bad) {
  I x = {};
  for (L i = 0; i < W && i < n; i++) x[i] = narrow(p[i * stride], bad);
  return x;
}
// Elements at places that lanes have computed, each between 0 and extent - 1; `rows` are those of this vector.
INL bool all(I c) {
  bool y = true;
  UNROLL for (int i = 0; i < W; i++) y &= c[i] != 0;
  return y;
}
INL bool straight(I at) { I c = at - at[0] == iota; return all(c); }
template <class T> INL V gather(const T* p, I at, L stride, L rs, L rows, L extent) {
  V y = {};
  for (L i = 0; i < W; i++)
    if (i < rows) {
      L n = at[i] < 0 ? 0 : at[i] >= extent ? extent - 1 : at[i];
      y[i] = (float)num(p[n * stride + i * rs]);
    }
  return y;
}
INL V gather(const float* p, I at, L stride, L rs, L rows, L extent) {
  if (stride == 1 && rs == 0 && rows >= W && at[0] >= 0 && at[0] + W <= extent && straight(at)) return ldu(p + at[0]);
  V y = {};
  for (L i = 0; i < W; i++)
    if (i < rows) {
      L n = at[i] < 0 ? 0 : at[i] >= extent ? extent - 1 : at[i];
      y[i] = p[n * stride + i * rs];
    }
  return y;
}
// Places that have to be there; of one that is not the flag is set, and the call is left to torch.
template <class T> INL V gather(const T* p, I at, L stride, L rs, L rows, L extent, int* bad) {
  for (L i = 0; i < W; i++)
    if (i < rows && (at[i] < 0 || at[i] >= extent)) *bad = 1;
  return gather(p, at, stride, rs, rows, extent);
}

// A tile of rows with features, x[f][row] = p[row * rs + f * fs], 0 in the lanes of rows that are not there.
template <class T> static void pack(const T* p, L rs, L fs, L rows, L n, float* x) {
  L f = 0;
  if (fs == 1 && rows == M)
    for (; f + W <= n; f += W)
      for (L r = 0; r < M; r += W) {
        V a[W];
        UNROLL for (int i = 0; i < W; i++) a[i] = near(p + (r + i) * rs + f);
        turn(a);
        UNROLL for (int i = 0; i < W; i++) st(x + (f + i) * M + r, a[i]);
      }
  for (; f < n; f++)
    for (L i = 0; i < M; i++) x[f * M + i] = i < rows ? (float)num(p[i * rs + f * fs]) : 0.f;
}
template <class T> static void unpack(T* p, L rs, L fs, L rows, L n, const float* x) {
  L f = 0;
  if (fs == 1 && rows == M)
    for (; f + W <= n; f += W)
      for (L r = 0; r < M; r += W) {
        V a[W];
        UNROLL for (int i = 0; i < W; i++) a[i] = ld(x + (f + i) * M + r);
        turn(a);
        UNROLL for (int i = 0; i < W; i++) beside(p + (r + i) * rs + f, a[i]);
      }
  for (L i = 0; i < rows; i++)
    for (L g = f; g < n; g++) put(p + i * rs + g * fs, x[g * M + i]);
}
// The same tile with its rows one after the other, y[row][f], `across` numbers from row to row.
static void rows_of(const float* x, L n, L across, float* y) {
  for (L i = 0; i < M; i++)
    for (L f = 0; f < n; f++) y[i * across + f] = x[f * M + i];
}
// A tile of the stream with features, made float and put side by side.
template <class T> static void widen(const T* p, L ss, L fs, L n, L features, float* __restrict x) {
  for (L s = 0; s < n; s++) {
    const T* row = p + s * ss;
    if (fs == 1) for (L f = 0; f < features; f++) x[s * features + f] = (float)num(row[f]);
    else for (L f = 0; f < features; f++) x[s * features + f] = (float)num(row[f * fs]);
  }
}

template <class T> static void side_by_side(const T* p, L ss, L fs, L n, L features, T* __restrict x) {
  for (L s = 0; s < n; s++) {
    const T* row = p + s * ss;
    if (fs == 1) for (L f = 0; f < features; f++) x[s * features + f] = row[f];
    else for (L f = 0; f < features; f++) x[s * features + f] = row[f * fs];
  }
}
static void side_by_side(const int4* p, L ss, L fs, L n, L features, int8* __restrict x) {
  for (L s = 0; s < n; s++)
    for (L f = 0; f < features; f++) x[s * features + f] = (int8)num(p[s * ss + f * fs]);
}

#if BF16
INL unsigned short exactly(int8 x) { return (unsigned short)(__builtin_bit_cast(u32, num(x)) >> 16); }  // as bfloat16
static void side_by_side(const int8* p, L ss, L fs, L n, L features, bf16* __restrict x) {
  for (L s = 0; s < n; s++)
    for (L f = 0; f < features; f++) x[s * features + f].bits = exactly(p[s * ss + f * fs]);
}
#endif
// The products. Sixteen accumulators; each number of the stream's operand is spread over all lanes.
#if W == 16
#define KEYS 8
#define FEATURES (16 / QV)
#else
#define KEYS 4
#define FEATURES (8 / QV)
#endif
// A sum of more than LONG products is a sum of sums of so many.
#define LONG 512
#define RARE __attribute__((noinline, cold)) static
// Compilers keep sums in registers only where no other function is given the address of what they stand in, and where no
// lane of them is read at a place that is computed: such a function, or such a lane, has a copy.
template <int N> INL void set_all(V (&a)[N][QV], const V (&b)[N][QV]) {
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] = b[j][i];
}
INL void add_lanes(float* o, L n, V x, float scale) { for (L i = 0; i < n; i++) o[i] += x[i] * scale; }
template <int N> INL void add_all(V (&a)[N][QV], const V (&b)[N][QV]) {
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] += b[j][i];
}
// a[j] = sum over f of k[j][f] * q[f]: N positions of the stream against a tile of rows.
template <int N> RARE void long_products(const float* q, const float* k, L ks, L kf, L n, V (&a)[N][QV]);
template <int N> INL void products(const float* __restrict q, const float* __restrict k, L ks, L kf, L n, V (&a)[N][QV]) {
  if (n > LONG) {
    V b[N][QV];
    long_products<N>(q, k, ks, kf, n, b);
    return set_all<N>(a, b);
  }
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] = V{};
  if (kf == 1)
    for (L f = 0; f < n; f++) {
      V x[QV];
      UNROLL for (int i = 0; i < QV; i++) x[i] = ld(q + f * M + i * W);
      UNROLL for (int j = 0; j < N; j++) {
        V y = splat(k[j * ks + f]);
        UNROLL for (int i = 0; i < QV; i++) a[j][i] += y * x[i];
      }
    }
  else
    for (L f = 0; f < n; f++) {
      V x[QV];
      UNROLL for (int i = 0; i < QV; i++) x[i] = ld(q + f * M + i * W);
      UNROLL for (int j = 0; j < N; j++) {
        V y = splat(k[j * ks + f * kf]);
        UNROLL for (int i = 0; i < QV; i++) a[j][i] += y * x[i];
      }
    }
}
template <int N> RARE void long_products(const float* q, const float* k, L ks, L kf, L n, V (&a)[N][QV]) {
  products<N>(q, k, ks, kf, LONG, a);
  for (L f = LONG; f < n; f += LONG) {
    V b[N][QV];
    products<N>(q + f * M, k + f * kf, ks, kf, n - f < LONG ? n - f : LONG, b);
    add_all<N>(a, b);
  }
}
// o[f] = o[f] * scale + sum over s of v[s][f] * p[s]: N features of what is carried.
template <int N> INL void shares(const float* __restrict p, const float* __restrict v, L vs, L vf, L n, float* __restrict o, const V (&scale)[QV]) {
  V a[N][QV];
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] = V{};
  if (vf == 1)
    for (L s = 0; s < n; s++) {
      V x[QV];
      UNROLL for (int i = 0; i < QV; i++) x[i] = ld(p + s * M + i * W);
      UNROLL for (int j = 0; j < N; j++) {
        V y = splat(v[s * vs + j]);
        UNROLL for (int i = 0; i < QV; i++) a[j][i] += y * x[i];
      }
    }
  else
    for (L s = 0; s < n; s++) {
      V x[QV];
      UNROLL for (int i = 0; i < QV; i++) x[i] = ld(p + s * M + i * W);
      UNROLL for (int j = 0; j < N; j++) {
        V y = splat(v[s * vs + j * vf]);
        UNROLL for (int i = 0; i < QV; i++) a[j][i] += y * x[i];
      }
    }
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) st(o + j * M + i * W, ld(o + j * M + i * W) * scale[i] + a[j][i]);
}
static void carry(const float* p, const float* v, L vs, L vf, L n, L features, float* o, const V (&scale)[QV]) {
  L f = 0;
  for (; f + FEATURES <= features; f += FEATURES) shares<FEATURES>(p, v + f * vf, vs, vf, n, o + f * M, scale);
  for (; f < features; f++) shares<1>(p, v + f * vf, vs, vf, n, o + f * M, scale);
}
// o[s][f] += sum over rows of p[s][row] * y[row][f]: shares of what has the stream's axis; the lanes are features.
template <int N> INL void turned(const float* __restrict p, const float* __restrict y, L across, L rows, L vectors, L n, float* __restrict o, L os) {
  V a[N][QV];
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] = V{};
  for (L r = 0; r < rows; r++) {
    V x[QV];
    UNROLL for (int i = 0; i < QV; i++) x[i] = i < vectors ? ld(y + r * across + i * W) : V{};
    UNROLL for (int j = 0; j < N; j++) {
      V z = splat(p[j * M + r]);
      UNROLL for (int i = 0; i < QV; i++) a[j][i] += z * x[i];
    }
  }
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) {
      if (i * W + W <= n) stu(o + j * os + i * W, ldu(o + j * os + i * W) + a[j][i]);
      else add_lanes(o + j * os + i * W, n - i * W, a[j][i], 1.f);
    }
}
static void spread(const float* p, const float* y, L across, L rows, L n, L features, float* o, L os, L of) {
  if (of != 1) {
    for (L s = 0; s < n; s++)
      for (L f = 0; f < features; f++) {
        float a = 0;
        for (L r = 0; r < rows; r++) a += p[s * M + r] * y[r * across + f];
        o[s * os + f * of] += a;
      }
    return;
  }
  for (L f = 0; f < features; f += M) {
    L left = features - f, vectors = left >= M ? QV : (left + W - 1) / W, s = 0;
    for (; s + KEYS <= n; s += KEYS) turned<KEYS>(p + s * M, y + f, across, rows, vectors, left < M ? left : M, o + s * os + f, os);
    for (; s < n; s++) turned<1>(p + s * M, y + f, across, rows, vectors, left < M ? left : M, o + s * os + f, os);
  }
}
// A vector of results, for the rows that are there.
template <class T> INL void save(T* p, L rs, L rows, V x) {
  if (rs == 1 && rows >= W) { beside(p, x); return; }
  for (L i = 0; i < W; i++)
    if (i < rows) put(p + i * rs, x[i]);
}
// A computed place in a slot: one that is not there stands for the nearest that is, and nobody reads what is found.
INL L inside(L x, L extent) { return x < 0 ? 0 : x >= extent ? extent - 1 : x; }
INL L inside(L x, L extent, int* bad) { if (x < 0 || x >= extent) *bad = 1; return inside(x, extent); }
INL L padded(L numbers) { return (numbers + 15) / 16 * 16; }
#if QV == 1
static const V ones[QV] = {splat(1.f)};
#else
static const V ones[QV] = {splat(1.f), splat(1.f)};
#endif

// The blocks of a tile of the stream.
template <int n> struct Many { static constexpr int value = n; };
template <bool b> struct Cuts { static constexpr bool value = b; };
template <class F> INL void blocks(L count, bool cut, F f) {
  L j = 0;
  if (cut) {
    for (; j + KEYS <= count; j += KEYS) f(Many<KEYS>{}, Cuts<true>{}, j);
    for (; j < count; j++) f(Many<1>{}, Cuts<true>{}, j);
  } else {
    for (; j + KEYS <= count; j += KEYS) f(Many<KEYS>{}, Cuts<false>{}, j);
    for (; j < count; j++) f(Many<1>{}, Cuts<false>{}, j);
  }
}
// Spans of the stream by their first positions.
static void ordered(L (*spans)[2], L n) {
  for (L i = 1; i < n; i++)
    for (L j = i; j > 0 && spans[j][0] < spans[j - 1][0]; j--) {
      L a = spans[j][0], b = spans[j][1];
      spans[j][0] = spans[j - 1][0]; spans[j][1] = spans[j - 1][1];
      spans[j - 1][0] = a; spans[j - 1][1] = b;
    }
}
// Pieces of work for some threads, each with memory of its own. Returns whether one of them could not be done.
template <class F> static L over(L work, L threads, F f, float* room, L each) {
  int bad = 0;
  if (threads > work) threads = work;
  if (threads <= 1) {  // without OpenMP, whose threads do not live on in a forked process
    for (L x = 0; x < work; x++) f(x, room, &bad);
    return bad;
  }
  L next = 0, who = 0;
#pragma omp parallel num_threads((int)threads)
  {
    L me = __atomic_fetch_add(&who, 1, __ATOMIC_RELAXED);
    for (;;) {
      L x = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
      if (x >= work) break;
      int mine = 0;
      f(x, room + me * each, &mine);
      if (mine) __atomic_store_n(&bad, 1, __ATOMIC_RELAXED);
    }
  }
  return bad;
}
// The pieces of work of several calls of a kernel, as one queue. `pieces` says how many a call has, and is negative where
// it cannot run, `shared` how many numbers of memory, at first 0, its pieces have in common; `ends` is memory for two
// numbers a call. Returns whether something could not be done.
template <class P, class S, class F>
static L queued(L calls, void* const* const* p, const L* const* n, const double* const* x, L* ends, float* room, L each,
                L threads, P pieces, S shared, F run) {
  L total = 0, needed = 0, *starts = ends + calls;
  for (L c = 0; c < calls; c++) {
    const L found = pieces(n[c], x[c]);
    if (found < 0) return 1;
    ends[c] = total += found;
    starts[c] = needed;
    needed += shared(n[c], x[c]);
  }
  float* const common = needed ? (float*)__builtin_calloc(needed, sizeof(float)) : nullptr;
  if (needed && !common) return 1;
  const L bad = over(total, threads, [&](L work, float* own, int* bad) {
    L c = 0;
    while (work >= ends[c]) c++;
    run(p[c], n[c], x[c], c ? work - ends[c - 1] : work, common + starts[c], own, bad);
  }, room, each);
  if (common) __builtin_free(common);
  return bad;
}
// Numbers of memory for the states of all parts of a tile, behind the number of those that are done.
static L states_of(L parts, L each) { return 16 + parts * each; }
// Whether this part is the last one of its tile that is done, to which the states of all others can be read.
static bool last_of(L parts, float* states) { return __atomic_add_fetch((L*)states, 1, __ATOMIC_ACQ_REL) == parts; }
// Parts into which the stream of a tile is cut, so that a few tiles over many positions are work for many threads. By
// sizes alone: results are the same for any number of threads.
static L parts_of(L tiles, L positions) {
  if (tiles < 1 || tiles >= SHARES) return 1;
  const L most = positions / PART, wanted = (SHARES + tiles - 1) / tiles;
  return most < 1 ? 1 : most < wanted ? most : wanted;
}
// Products of whole numbers of 8 bits, where the processor adds four of them in 32 bits: those of the stream are 128 more
// than they are, which is taken off again. Sums of so many products are below 2^31.
#define WHOLE 65536
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define QUADS 1
typedef u32 one_quad __attribute__((aligned(1), may_alias));
INL void add_quads(I& a, I x, I y) { asm("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(x), "v"(y)); }
// x[f / 4][row]: the fours of features of a tile of rows; behind them, for each part, what is taken off.
template <class T> static void pack_quads(const T* p, L rs, L fs, L rows, L n, u32* x) {
  for (L f = 0; f < n; f += 4)
    for (L i = 0; i < M; i++) {
      u32 y = 0;
      for (L c = 0; c < 4 && f + c < n && i < rows; c++) y |= (u32)(unsigned char)(int8)num(p[i * rs + (f + c) * fs]) << 8 * c;
      x[f / 4 * M + i] = y;
    }
  for (L f = 0, at = (n + 3) / 4; f < n; f += WHOLE, at++)
    for (L i = 0; i < M; i++) {
      int y = 0;
      for (L c = f; c < n && c < f + WHOLE && i < rows; c++) y -= 128 * (int)num(p[i * rs + c * fs]);
      x[at * M + i] = (u32)y;
    }
}
template <int N> INL void products8(const u32* __restrict q, const int8* __restrict k, L ks, L n, V (&a)[N][QV]) {
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] = V{};
  for (L from = 0; from < n; from += WHOLE) {
    const L to = n - from < WHOLE ? n : from + WHOLE;
    I sums[N][QV];
    UNROLL for (int j = 0; j < N; j++)
      UNROLL for (int i = 0; i < QV; i++) sums[j][i] = *(const I*)(q + ((n + 3) / 4 + from / WHOLE) * M + i * W);
    for (L f = from / 4; f < to / 4; f++) {
      I x[QV];
      UNROLL for (int i = 0; i < QV; i++) x[i] = *(const I*)(q + f * M + i * W);
      UNROLL for (int j = 0; j < N; j++) {
        I y = splat((int)(*(const one_quad*)(k + j * ks + 4 * f) ^ 0x80808080u));
        UNROLL for (int i = 0; i < QV; i++) add_quads(sums[j][i], y, x[i]);
      }
    }
    if (to % 4)
      UNROLL for (int j = 0; j < N; j++) {
        u32 y = 0;
        for (L f = to / 4 * 4; f < to; f++) y |= (u32)(unsigned char)k[j * ks + f] << 8 * (f % 4);
        UNROLL for (int i = 0; i < QV; i++) add_quads(sums[j][i], splat((int)(y ^ 0x80808080u)), *(const I*)(q + to / 4 * M + i * W));
      }
    UNROLL for (int j = 0; j < N; j++)
      UNROLL for (int i = 0; i < QV; i++) a[j][i] += real(sums[j][i]);
  }
}
#else
#define QUADS 0
#endif
// Products of pairs of bfloat16 numbers, where the processor forms them: sums are float.
#if defined(__AVX512BF16__) && defined(__AVX512BW__) && BF16
#define PAIRS 1
typedef u32 U __attribute__((vector_size(W * 4), may_alias));
typedef u32 UU __attribute__((vector_size(W * 4), aligned(2), may_alias));
typedef u32 one_pair __attribute__((aligned(2), may_alias));
INL void add_pairs(V& a, U x, U y) { asm("vdpbf16ps %2, %1, %0" : "+v"(a) : "v"(x), "v"(y)); }
INL U two(V low, V high) {  // sixteen numbers after the other sixteen
  U y;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(y) : "v"(high), "v"(low));
  return y;
}
INL U both(V low, V high) {  // in each lane one number of each
  static const short order __attribute__((vector_size(64))) = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,
                                                               8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  U y = two(low, high);
  asm("vpermw %0, %1, %0" : "+v"(y) : "v"(order));
  return y;
}
#define SAME(i) x
INL U splat(u32 x) { return U{LIST(SAME)}; }
#undef SAME
INL u32 pair(bf16 a, bf16 b) { return (u32)a.bits | (u32)b.bits << 16; }
// x[f / 2][row]: the pairs of features of a tile of rows.
static void pack_pairs(const bf16* p, L rs, L fs, L rows, L n, u32* x) {
  L f = 0;
  if (fs == 1 && rows == M)
    for (; f + 2 * W <= n; f += 2 * W)
      for (L r = 0; r < M; r += W) {
        V a[W];
        UNROLL for (int i = 0; i < W; i++) a[i] = (V)(U)*(const UU*)(p + (r + i) * rs + f);
        turn(a);
        UNROLL for (int i = 0; i < W; i++) *(U*)(x + (f / 2 + i) * M + r) = (U)a[i];
      }
  for (; f < n; f += 2)
    for (L i = 0; i < M; i++)
      x[f / 2 * M + i] = i < rows ? pair(p[i * rs + f * fs], f + 1 < n ? p[i * rs + (f + 1) * fs] : bf16{0}) : 0;
}
// x[s / 2][f]: the pairs of positions of a tile of the stream, or of rows; `across` numbers from pair to pair.
static void pair_positions(const bf16* p, L ss, L fs, L n, L features, L across, u32* x) {
  for (L s = 0; s < n; s += 2) {
    const bf16 *a = p + s * ss, *b = p + (s + 1) * ss;
    u32* y = x + s / 2 * across;
    if (s + 1 == n) for (L f = 0; f < features; f++) y[f] = a[f * fs].bits;
    else if (fs == 1) for (L f = 0; f < features; f++) y[f] = (u32)a[f].bits | (u32)b[f].bits << 16;
    else for (L f = 0; f < features; f++) y[f] = pair(a[f * fs], b[f * fs]);
    for (L f = features; f < across; f++) y[f] = 0;
  }
}
static void pair_positions(const int8* p, L ss, L fs, L n, L features, L across, u32* x) {
  for (L s = 0; s < n; s += 2) {
    const int8 *a = p + s * ss, *b = p + (s + 1 < n ? s + 1 : s) * ss;
    const u32 there = s + 1 < n ? 0xffffffffu : 0xffffu;
    u32* y = x + s / 2 * across;
    for (L f = 0; f < features; f++) y[f] = ((u32)exactly(a[f * fs]) | (u32)exactly(b[f * fs]) << 16) & there;
    for (L f = features; f < across; f++) y[f] = 0;
  }
}
// y[s / 2][row] and y[s][row / 2] of p[s][row]; rows that are not there are 0.
static void pair_up(const float* p, L n, u32* y) {
  for (L s = 0; s < n; s += 2)
    UNROLL for (int i = 0; i < QV; i++)
      *(U*)(y + s / 2 * M + i * W) = both(ld(p + s * M + i * W), s + 1 < n ? ld(p + (s + 1) * M + i * W) : V{});
}
static void halve(const float* p, L n, L rows, u32* y) {
  for (L s = 0; s < n; s++) {
    V low = ld(p + s * M), high = ld(p + s * M + W);
    if (rows < M) {
      low = choose(leading(rows), low, V{});
      high = choose(leading(rows - W), high, V{});
    }
    *(U*)(y + s * W) = two(low, high);
  }
}
template <int N> RARE void long_products16(const u32* q, const bf16* k, L ks, L n, V (&a)[N][QV]);
template <int N> INL void products16(const u32* __restrict q, const bf16* __restrict k, L ks, L n, V (&a)[N][QV]) {
  if (n > LONG) {
    V b[N][QV];
    long_products16<N>(q, k, ks, n, b);
    return set_all<N>(a, b);
  }
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] = V{};
  for (L f = 0; f < n / 2; f++) {
    U x[QV];
    UNROLL for (int i = 0; i < QV; i++) x[i] = *(const U*)(q + f * M + i * W);
    UNROLL for (int j = 0; j < N; j++) {
      U y = splat((u32)*(const one_pair*)(k + j * ks + 2 * f));
      UNROLL for (int i = 0; i < QV; i++) add_pairs(a[j][i], y, x[i]);
    }
  }
  if (n % 2)
    UNROLL for (int j = 0; j < N; j++)
      UNROLL for (int i = 0; i < QV; i++) add_pairs(a[j][i], splat((u32)k[j * ks + n - 1].bits), *(const U*)(q + n / 2 * M + i * W));
}
template <int N> RARE void long_products16(const u32* q, const bf16* k, L ks, L n, V (&a)[N][QV]) {
  products16<N>(q, k, ks, LONG, a);
  for (L f = LONG; f < n; f += LONG) {
    V b[N][QV];
    products16<N>(q + f / 2 * M, k + f, ks, n - f < LONG ? n - f : LONG, b);
    add_all<N>(a, b);
  }
}
template <int N> INL void shares16(const u32* __restrict p, const u32* __restrict v, L vs, L n, float* __restrict o, const V (&scale)[QV]) {
  V a[N][QV];
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] = V{};
  for (L s = 0; s < n; s++) {
    U x[QV];
    UNROLL for (int i = 0; i < QV; i++) x[i] = *(const U*)(p + s * M + i * W);
    UNROLL for (int j = 0; j < N; j++) {
      U y = splat(v[s * vs + j]);
      UNROLL for (int i = 0; i < QV; i++) add_pairs(a[j][i], y, x[i]);
    }
  }
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) st(o + j * M + i * W, ld(o + j * M + i * W) * scale[i] + a[j][i]);
}
static void carry16(const u32* p, const u32* v, L n, L features, float* o, const V (&scale)[QV]) {
  L f = 0;
  for (; f + FEATURES <= features; f += FEATURES) shares16<FEATURES>(p, v + f, features, n, o + f * M, scale);
  for (; f < features; f++) shares16<1>(p, v + f, features, n, o + f * M, scale);
}
template <int N> INL void turned16(const u32* __restrict p, const u32* __restrict y, L across, L pairs, L vectors, L n, float* __restrict o, L os, float scale) {
  V a[N][QV];
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) a[j][i] = V{};
  for (L r = 0; r < pairs; r++) {
    U x[QV];
    UNROLL for (int i = 0; i < QV; i++) x[i] = i < vectors ? *(const U*)(y + r * across + i * W) : U{};
    UNROLL for (int j = 0; j < N; j++) {
      U z = splat(p[j * W + r]);
      UNROLL for (int i = 0; i < QV; i++) add_pairs(a[j][i], z, x[i]);
    }
  }
  UNROLL for (int j = 0; j < N; j++)
    UNROLL for (int i = 0; i < QV; i++) {
      if (i * W + W <= n) stu(o + j * os + i * W, ldu(o + j * os + i * W) + a[j][i] * scale);
      else add_lanes(o + j * os + i * W, n - i * W, a[j][i], scale);
    }
}
static void spread16(const u32* p, const u32* y, L across, L rows, L n, L features, float* o, L os, L of, float scale) {
  float line[2 * M];
  for (L f = 0; f < features; f += M) {
    L left = features - f < M ? features - f : M, vectors = (left + W - 1) / W, pairs = (rows + 1) / 2, s = 0;
    if (of == 1) {
      for (; s + KEYS <= n; s += KEYS) turned16<KEYS>(p + s * W, y + f, across, pairs, vectors, left, o + s * os + f, os, scale);
      for (; s < n; s++) turned16<1>(p + s * W, y + f, across, pairs, vectors, left, o + s * os + f, os, scale);
    } else
      for (; s < n; s++) {
        for (L g = 0; g < left; g++) line[g] = o[s * os + (f + g) * of];
        turned16<1>(p + s * W, y + f, across, pairs, vectors, left, line, 0, scale);
        for (L g = 0; g < left; g++) o[s * os + (f + g) * of] = line[g];
      }
  }
}
#else
#define PAIRS 0
#endif
// Few rows: the lanes are features. What is read along the stream is read once, as it lies in memory, by all rows; with more
// than FEW of them the products above lose less. The rows of `q` and of `o` stand one after the other, n numbers each.
#define FEW (W / 2)
#define AHEAD(T) (sizeof(T) == 1 ? 64 : 32)  // positions whose numbers are asked for before they are read
#define NEXT 16  // positions of which all features are read before those of the next
#define SPAN 256  // features whose sums wait beside each other meanwhile
template <class T> constexpr bool PAIRED = false;  // numbers that the processor multiplies in pairs
#if PAIRS
template <> constexpr bool PAIRED<bf16> = true;
template <> constexpr bool PAIRED<int8> = true;
#endif
// Into the second cache: the first one has few places for lines that are on their way, and reading waits for them.
template <class T> INL void ahead(const T* p) { __builtin_prefetch(p, 0, 2); }
INL void ahead(const int4* p) { __builtin_prefetch(byte_of(p), 0, 2); }
template <class T> INL V part(const T* p, L n) {  // the first n numbers, 0 behind them
  V y = {};
  for (L i = 0; i < n; i++) y[i] = num(p[i]);
  return y;
}
template <int at, int R> INL V dealt(V x) {  // lane i takes what stands at `at` + i, in turns of R
#define DEALT(i) at + (i) % R
  return __builtin_shufflevector(x, x, LIST(DEALT));
#undef DEALT
}
template <int R, int G, int at = 0> INL void deal(V x, V (*a)[QV]) {
  if constexpr (at < G) {
    a[at][0] = dealt<at * R, R>(x);
    deal<R, G, at + 1>(x, a);
  }
}
template <int R, int G, class T> static void few_dots(const float* q, L qs, const T* k, L ks, L n, V (*a)[QV]) {
  V sum[W];
  UNROLL for (int i = 0; i < W; i++) sum[i] = V{};
  L f = 0;
  for (; f + W <= n; f += W) {
    V x[R];
    UNROLL for (int r = 0; r < R; r++) x[r] = ldu(q + r * qs + f);
    UNROLL for (int g = 0; g < G; g++) {
      if (f * sizeof(T) % 64 == 0) ahead(k + (g + AHEAD(T)) * ks + f);
      V y = near(k + g * ks + f);
      UNROLL for (int r = 0; r < R; r++) sum[g * R + r] += x[r] * y;
    }
  }
  if (f < n)
    UNROLL for (int g = 0; g < G; g++) {
      V y = part(k + g * ks + f, n - f);
      UNROLL for (int r = 0; r < R; r++) sum[g * R + r] += part(q + r * qs + f, n - f) * y;
    }
  deal<R, G>(sums(sum), a);
}
#if PAIRS
INL unsigned short exactly(bf16 x) { return x.bits; }
template <class T> INL U some_pairs(const T* p, L n) {  // the pairs of the first n numbers, 0 behind them
  U y = {};
  for (L i = 0; i < n; i++) y[i / 2] |= (u32)exactly(p[i]) << i % 2 * 16;
  return y;
}
INL U pairs_at(const bf16* p) { return *(const UU*)p; }
INL U pairs_at(const int8* p) { return two(near(p), near(p + W)); }
template <int R, int G, class T> static void few_dots(const u32* q, L qs, const T* k, L ks, L n, V (*a)[QV]) {
  V sum[W];
  UNROLL for (int i = 0; i < W; i++) sum[i] = V{};
  L f = 0;
  for (; f + 2 * W <= n; f += 2 * W) {
    U x[R];
    UNROLL for (int r = 0; r < R; r++) x[r] = *(const UU*)(q + r * qs + f / 2);
    UNROLL for (int g = 0; g < G; g++) {
      if (f * sizeof(T) % 64 == 0) ahead(k + (g + AHEAD(T)) * ks + f);
      U y = pairs_at(k + g * ks + f);
      UNROLL for (int r = 0; r < R; r++) add_pairs(sum[g * R + r], y, x[r]);
    }
  }
  if (f < n)
    UNROLL for (int g = 0; g < G; g++) {
      U y = some_pairs(k + g * ks + f, n - f);
      UNROLL for (int r = 0; r < R; r++)
        add_pairs(sum[g * R + r], y, some_pairs((const bf16*)(q + r * qs + f / 2), n - f));
    }
  deal<R, G>(sums(sum), a);
}
#endif
INL L held(const float*, L n) { return n; }  // numbers of a row in memory
INL L held(const u32*, L n) { return (n + 1) / 2; }
template <int N, int R, class Q, class T> INL void few_keys(const Q* q, L qs, const T* k, L ks, L n, V (&a)[N][QV]) {
  constexpr int G = W / R < N ? W / R : N;
  for (int j = 0; j < N; j += G) few_dots<R, G>(q, qs, k + j * ks, ks, n, a + j);
}
template <int N, class Q, class T> INL void few_of(const Q* q, L qs, L rows, const T* k, L ks, L n, V (&a)[N][QV]) {
  if (rows == 1) few_keys<N, 1>(q, qs, k, ks, n, a);
  else if (rows == 2) few_keys<N, 2>(q, qs, k, ks, n, a);
#if W >= 8
  else if (rows <= 4) few_keys<N, 4>(q, qs, k, ks, n, a);
#endif
#if W >= 16
  else few_keys<N, 8>(q, qs, k, ks, n, a);
#endif
}
template <int N, class Q, class T> RARE void long_few(const Q* q, L rows, const T* k, L ks, L n, V (&a)[N][QV]) {
  UNROLL for (int j = 0; j < N; j++) a[j][0] = V{};
  for (L f = 0; f < n; f += LONG * W) {
    V b[N][QV] = {};
    few_of<N>(q + held(q, f), held(q, n), rows, k + f, ks, n - f < LONG * W ? n - f : LONG * W, b);
    add_all<N>(a, b);
  }
}
template <int N, class Q, class T> INL void few_products(const Q* q, L rows, const T* k, L ks, L n, V (&a)[N][QV]) {
  if (n > LONG * W) long_few<N>(q, rows, k, ks, n, a);  // a lane has each W-th product
  else few_of<N>(q, held(q, n), rows, k, ks, n, a);
}
// What n positions add to the sums of C vectors of features, for each of R rows.
template <int R, int C, class T> INL void few_features(const float* p, const T* v, L vs, L n, float* own) {
  V a[R][C];
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int c = 0; c < C; c++) a[r][c] = ld(own + r * SPAN + c * W);
  for (L s = 0; s < n; s++) {
    V y[C];
    UNROLL for (int c = 0; c < C; c++) {
      if (c * W * sizeof(T) % 64 == 0) ahead(v + (s + AHEAD(T)) * vs + c * W);
      y[c] = near(v + s * vs + c * W);
    }
    UNROLL for (int r = 0; r < R; r++) {
      V z = splat(p[s * M + r]);
      UNROLL for (int c = 0; c < C; c++) a[r][c] += z * y[c];
    }
  }
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int c = 0; c < C; c++) st(own + r * SPAN + c * W, a[r][c]);
}
#if PAIRS
// The same of pairs of positions. Of each two vectors of sums the first has the features 0 to 3, 8 to 11 and so on of
// both.
template <int R, int C, class T> INL void few_features(const u32* p, const T* v, L vs, L n, float* own) {
  V a[R][C];
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int c = 0; c < C; c++) a[r][c] = ld(own + r * SPAN + c * W);
  for (L s = 0; s < n; s += 2) {
    U y[C];
    UNROLL for (int c = 0; c < C; c += 2) {
      const T* const at = v + s * vs + c * W;
      if (c * W * sizeof(T) % 64 == 0) {
        ahead(at + AHEAD(T) * vs);
        ahead(at + (AHEAD(T) + 1) * vs);
      }
      U one = pairs_at(at), other = s + 1 < n ? pairs_at(at + vs) : U{};
      asm("vpunpcklwd %2, %1, %0" : "=v"(y[c]) : "v"(one), "v"(other));
      asm("vpunpckhwd %2, %1, %0" : "=v"(y[c + 1]) : "v"(one), "v"(other));
    }
    UNROLL for (int r = 0; r < R; r++) {
      U z = splat(p[s / 2 * M + r]);
      UNROLL for (int c = 0; c < C; c++) add_pairs(a[r][c], z, y[c]);
    }
  }
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int c = 0; c < C; c++) st(own + r * SPAN + c * W, a[r][c]);
}
// Such sums in the order of their features, in place.
INL void in_order(float* own) {
  V a = ld(own), b = ld(own + W);
  st(own, __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
  st(own + W, __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31));
}
#endif
// The features that fill vectors, at most SPAN of them. Of a few positions all features are read before the next ones,
// so that memory is read as it lies; the sums of the tile wait in `own` meanwhile. `pairs` has those of p, or is null.
template <int R, class T>
static void few_span(const float* p, const u32* pairs, const T* v, L vs, L n, L features, L whole, float* o, V scale) {
  constexpr int C = 16 / R < 4 ? 16 / R : 4;
  alignas(64) float own[R * SPAN];
  for (int r = 0; r < R; r++)
    for (L f = 0; f < whole; f += W) st(own + r * SPAN + f, V{});
  for (L s = 0; s < n; s += NEXT) {
    const L m = n - s < NEXT ? n - s : NEXT;
    L f = 0;
#if PAIRS
    if constexpr (PAIRED<T>)
      if (pairs) {
        for (; f + C * W <= whole; f += C * W) few_features<R, C>(pairs + s / 2 * M, v + s * vs + f, vs, m, own + f);
        for (; f + 2 * W <= whole; f += 2 * W) few_features<R, 2>(pairs + s / 2 * M, v + s * vs + f, vs, m, own + f);
      }
#endif
    for (; f + C * W <= whole; f += C * W) few_features<R, C>(p + s * M, v + s * vs + f, vs, m, own + f);
    for (; f < whole; f += W) few_features<R, 1>(p + s * M, v + s * vs + f, vs, m, own + f);
  }
#if PAIRS
  if (PAIRED<T> && pairs)
    for (int r = 0; r < R; r++)
      for (L f = 0; f + 2 * W <= whole; f += 2 * W) in_order(own + r * SPAN + f);
#endif
  for (int r = 0; r < R; r++)
    for (L f = 0; f < whole; f += W) stu(o + r * features + f, ldu(o + r * features + f) * scale[r] + ld(own + r * SPAN + f));
}
template <int R, class T>
static void few_shares(const float* p, const u32* pairs, const T* v, L vs, L n, L features, float* o, V scale) {
  const L whole = features / W * W;
  for (L f = 0; f < whole; f += SPAN)
    few_span<R>(p, pairs, v + f, vs, n, features, whole - f < SPAN ? whole - f : SPAN, o + f, scale);
  for (L f = whole; f < features; f++)
    for (int r = 0; r < R; r++) {
      float a = o[r * features + f] * scale[r];
      for (L s = 0; s < n; s++) a += p[s * M + r] * num(v[s * vs + f]);
      o[r * features + f] = a;
    }
}
template <class T>
static void few_carry(const float* p, const u32* pairs, const T* v, L vs, L n, L rows, L features, float* o,
                      const V (&scale)[QV]) {
  if (rows == 1) few_shares<1>(p, pairs, v, vs, n, features, o, scale[0]);
  else if (rows == 2) few_shares<2>(p, pairs, v, vs, n, features, o, scale[0]);
#if W >= 8
  else if (rows <= 4) few_shares<4>(p, pairs, v, vs, n, features, o, scale[0]);
#endif
#if W >= 16
  else few_shares<8>(p, pairs, v, vs, n, features, o, scale[0]);
#endif
}
// Lanes become rows one after the other; those that are not there are 0.
template <class T> static void listed(const T* x, L rows, L features, T* y) {
  for (L i = 0; i < FEW; i++)
    for (L f = 0; f < features; f++) y[i * features + f] = i < rows ? x[f * M + i] : T{};
}
// Rows one after the other become lanes, in place.
static void as_lanes(float* x, L rows, L features, float* other) {
  for (L f = 0; f < features; f++)
    for (L i = 0; i < M; i++) other[f * M + i] = i < rows ? x[i * features + f] : 0.f;
  for (L f = 0; f < features * M; f++) x[f] = other[f];
}
// The first place of n whole numbers that never fall whose number is as great as the limit; n where none is.
INL L first_at(const L* p, L stride, L n, L limit) {
  L low = 0, high = n;
  while (low < high) {
    L mid = (low + high) / 2;
    if (p[mid * stride] < limit) low = mid + 1; else high = mid;
  }
  return low;
}
INL L first_above(const L* p, L stride, L n, L limit) {
  L low = 0, high = n;
  while (low < high) {
    L mid = (low + high) / 2;
    if (p[mid * stride] <= limit) low = mid + 1; else high = mid;
  }
  return low;
}
