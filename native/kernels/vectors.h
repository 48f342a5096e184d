// Vectors of floats as wide as the processor's, their functions, and memory that is used again.
#ifndef NEXTQUERY_VECTORS_H
#define NEXTQUERY_VECTORS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "decoder.h"

namespace NEXTQUERY_SET {
namespace {

#ifdef __AVX512F__
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
constexpr int VECTORS = PANEL / LANES;  // of a panel

typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

inline Floats load(const float *from) { return *reinterpret_cast<const Floats *>(from); }
inline void store(float *to, Floats values) { *reinterpret_cast<Floats *>(to) = values; }
inline Floats all(float value) { return Floats{} + value; }
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Floats smaller(Floats a, Floats b) { return a < b ? a : b; }

// Which lanes are at least as large, as bits.
inline uint32_t at_least(Floats v, float least) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)v, (__m512)all(least), _CMP_GE_OQ);
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)v, (__m256)all(least), _CMP_GE_OQ));
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; ++lane) bits |= (uint32_t)(v[lane] >= least) << lane;
    return bits;
#endif
}

#ifdef __AVX512F__
inline float sum(Floats v) { return _mm512_reduce_add_ps(v); }
inline float largest(Floats v) { return _mm512_reduce_max_ps(v); }
#else
inline float sum(Floats v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
inline float largest(Floats v) {
    float best = v[0];
    for (int lane = 1; lane < LANES; ++lane) best = v[lane] > best ? v[lane] : best;
    return best;
}
#endif

// e^x within two units of the last place; far below zero it is a number near zero.
inline Floats exponential(Floats x) {
    x = smaller(larger(x, all(-87.0f)), all(88.0f));
    const Floats magic = all(12582912.0f);
    Floats n = (x * 1.44269504088896341f + magic) - magic;
    Floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Floats p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    Integers power = (__builtin_convertvector(n, Integers) + 127) << 23;
    return p * reinterpret_cast<Floats &>(power);
}
// e^(x - base) for a sum of many, within a ten-millionth, or a ten-thousandth if that is enough.
#ifdef __AVX512F__
template <bool ROUGH> inline Floats part_of_sum(Floats x, float base) {
    const Floats power = x * 1.44269504088896341f - all(base * 1.44269504088896341f);
    const Floats whole = (Floats)_mm512_roundscale_ps((__m512)power, _MM_FROUND_TO_NEAREST_INT);
    const Floats r = power - whole;  // 2^r up to half a power
    Floats p;
    if (ROUGH) {
        p = all(5.517161018e-2f) * r + 2.426111440e-1f;
        p = p * r + 6.932609986e-1f;
        p = p * r + 9.999280725e-1f;
    } else {
        p = all(1.327646525e-3f) * r + 9.675541701e-3f;
        p = p * r + 5.550713298e-2f;
        p = p * r + 2.402211972e-1f;
        p = p * r + 6.931469670e-1f;
        p = p * r + 1.000000072f;
    }
    return (Floats)_mm512_scalef_ps((__m512)p, (__m512)whole);
}
#else
template <bool ROUGH> inline Floats part_of_sum(Floats x, float base) {
    return exponential(x - base);
}
#endif
inline Floats sigmoid(Floats x) { return 1.0f / (1.0f + exponential(-x)); }
inline Floats tangent(Floats x) { return 1.0f - 2.0f / (1.0f + exponential(x + x)); }

inline float largest_size(const float *numbers, int64_t count) {
    float highest = 0.0f;
    int64_t i = 0;
    if (count >= LANES) {
        Floats best = all(0.0f);
        for (; i + LANES <= count; i += LANES)
            best = larger(best, larger(load(numbers + i), -load(numbers + i)));
        highest = largest(best);
    }
    for (; i < count; ++i) {
        const float size = fabsf(numbers[i]);
        highest = size > highest ? size : highest;
    }
    return highest;
}

// Memory that a thread uses again and again: no step asks the allocator for any.
struct Scratch {
    char *bytes = nullptr;
    size_t size = 0;
    ~Scratch() { free(bytes); }
    template <typename T> T *of(size_t count) {
        size_t wanted = (count * sizeof(T) + 63) / 64 * 64;
        if (wanted > size) {
            free(bytes);
            size = wanted + wanted / 2 / 64 * 64;
            bytes = static_cast<char *>(aligned_alloc(64, size));
            if (bytes == nullptr) abort();
        }
        return reinterpret_cast<T *>(bytes);
    }
};

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
