// Products of rows with matrices of whole numbers of 16 bits: fast mode's gates, where the processor
// multiplies twice as many of them at once. No sum can overflow: rows are rounded to a number that
// the largest row of the matrix allows.
#ifndef NEXTQUERY_ROUNDED_H
#define NEXTQUERY_ROUNDED_H

#include "products.h"

namespace NEXTQUERY_SET {
namespace {

#ifdef __AVX512VNNI__
constexpr int64_t SIXTEEN_BITS = 1;  // whether there is anything to gain
#else
constexpr int64_t SIXTEEN_BITS = 0;
#endif
constexpr float LARGEST_WEIGHT = 2047.0f;

// Blocks of 64 outputs; of each, two inputs of 16 outputs side by side. Returns the largest number
// that rows may be rounded to.
int64_t pack_matrix_16(const float *matrix, int64_t outputs, int64_t inputs, int16_t *packed,
                       float *scale) {
    const int64_t pairs = (inputs + 1) / 2;
    int64_t most = 1;
    for (int64_t row = 0; row < outputs; ++row) {
        const float *from = matrix + row * inputs;
        const float highest = largest_size(from, inputs);
        scale[row] = (highest > 1e-30f ? highest : 1e-30f) / LARGEST_WEIGHT;
        int16_t *to = packed + row / PANEL * PANEL * pairs * 2 + row % PANEL * 2;
        int64_t together = 0;
        for (int64_t k = 0; k < pairs * 2; ++k) {
            const int64_t value = k < inputs ? lrintf(from[k] / scale[row]) : 0;
            to[k / 2 * PANEL * 2 + k % 2] = (int16_t)value;
            together += value < 0 ? -value : value;
        }
        most = together > most ? together : most;
    }
    const int64_t largest = INT32_MAX / most;
    return largest < INT16_MAX ? largest : INT16_MAX;
}

#ifdef __AVX512VNNI__

struct Product_16 {
    const int16_t *rows, *packed;
    const float *steps, *scale, *bias;
    float *out;
    int64_t count, pairs, outputs, out_stride, part;
};

inline void in_sixteen_bits(const float *row, int64_t size, int64_t most, int16_t *out,
                            float *step) {
    const float found = largest_size(row, size), highest = found > 1e-30f ? found : 1e-30f;
    *step = highest / (float)most;
    const float times = (float)most / highest;
    int64_t k = 0;
    for (; k + LANES <= size; k += LANES)
        _mm256_storeu_si256(
            reinterpret_cast<__m256i *>(out + k),
            _mm512_cvtepi32_epi16(_mm512_cvtps_epi32((__m512)(load(row + k) * times))));
    for (; k < size; ++k) out[k] = (int16_t)lrintf(row[k] * times);
    if (size % 2 != 0) out[size] = 0;
}

// By its name, as the products of 8 bits.
inline __m512i two_products(__m512i sums, int32_t two, const int16_t *weights) {
    asm("vpdpwssd %2, %1, %0"
        : "+v"(sums)
        : "v"(_mm512_set1_epi32(two)), "v"(_mm512_loadu_si512(weights)));
    return sums;
}

// ROWS rows from `first` on, 64 outputs from `column` on; a part of the next 64 is fetched meanwhile.
template <int ROWS>
inline void tile_16(const Product_16 *of, int64_t first, int64_t column) {
    const Part part = Rows{0, of->count}.of(first, ROWS, 4);
    const int64_t pairs = of->pairs;
    const int16_t *packed = of->packed + column * pairs * 2, *rows = of->rows + first * pairs * 2;
    __m512i sums[ROWS][VECTORS * 4];
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < 4; ++c) sums[r][c] = _mm512_setzero_si512();
    for (int64_t k = 0; k < pairs; ++k) {
        for (int64_t c = part.first; c < part.stop; ++c)
            __builtin_prefetch(packed + ((4 + c) * pairs + k) * PANEL * 2);
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; ++r) {
            int32_t two;
            memcpy(&two, rows + (r * pairs + k) * 2, 4);
#pragma GCC unroll 4
            for (int c = 0; c < 4; ++c)
                sums[r][c] = two_products(sums[r][c], two, packed + (c * pairs + k) * PANEL * 2);
        }
    }
    for (int c = 0; c < 4; ++c) {
        const int64_t here = column + c * LANES, left = of->outputs - here;
        if (left <= 0) return;
        const Floats scale = load(of->scale + here);
        for (int r = 0; r < ROWS; ++r) {
            Floats found = __builtin_convertvector((Integers)sums[r][c], Floats) *
                           (scale * of->steps[first + r]);
            float *to = of->out + (first + r) * of->out_stride + here;
            if (left >= LANES) {
                if (of->bias != nullptr) found += load(of->bias + here);
                store(to, found);
            } else {
                for (int64_t lane = 0; lane < left; ++lane)
                    to[lane] = found[lane] + (of->bias == nullptr ? 0.0f : of->bias[here + lane]);
            }
        }
    }
}

void columns_part_16(void *argument, int64_t part) {
    const Product_16 *of = static_cast<const Product_16 *>(argument);
    const int64_t stop = (part + 1) * of->part;
    for (int64_t column = part * of->part; column < (stop < of->outputs ? stop : of->outputs);
         column += BLOCK)
        for (int64_t first = 0; first < of->count;) {
            const int64_t some = next_rows(of->count - first, MOST_ROWS);
#define TILE(R) \
    case R: tile_16<R>(of, first, column); break;
            switch (some) {
                TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
            }
#undef TILE
            first += some;
        }
}

void product_16(const float *rows, int64_t count, const Matrix &matrix, int64_t outputs,
                int64_t inputs, const float *bias, float *out, int64_t out_stride) {
    static thread_local Scratch scratch;
    const int64_t pairs = (inputs + 1) / 2, part = 4 * BLOCK;
    float *steps = scratch.of<float>(count + count * pairs);
    int16_t *rounded = reinterpret_cast<int16_t *>(steps + count);
    for (int64_t r = 0; r < count; ++r)
        in_sixteen_bits(rows + r * inputs, inputs, matrix.largest, rounded + r * pairs * 2,
                        steps + r);
    Product_16 of{rounded, matrix.rounded, steps,      matrix.scale, bias, out, count, pairs,
                  outputs, out_stride,     part};
    share(count, outputs * inputs / 2, columns_part_16, &of, (outputs + part - 1) / part);
}

#endif

// out (rows, outputs) = rows (rows, inputs) times a matrix as it is packed, and a bias if there is
// one.
inline void multiply(const float *rows, int64_t count, const Matrix &matrix, int64_t outputs,
                     int64_t inputs, const float *bias, float *out, int64_t out_stride) {
#ifdef __AVX512VNNI__
    if (matrix.rounded != nullptr)
        return product_16(rows, count, matrix, outputs, inputs, bias, out, out_stride);
#endif
    product(rows, count, matrix.packed, outputs, inputs, bias, out, out_stride);
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
