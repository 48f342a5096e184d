// Products of rows with packed matrices, in 32 bits: tiles whose sums stay in registers.
#ifndef NEXTQUERY_PRODUCTS_H
#define NEXTQUERY_PRODUCTS_H

#include "threads.h"
#include "vectors.h"

namespace NEXTQUERY_SET {
namespace {

#ifdef __AVX512F__
constexpr int SUMS = 24;  // vectors of sums that fit the registers next to weights and a row
#else
constexpr int SUMS = 12;
#endif
constexpr int MOST_ROWS = 6;

void pack_matrix(const float *matrix, int64_t outputs, int64_t inputs, float *packed) {
    for (int64_t panel = 0; panel * PANEL < outputs; ++panel) {
        float *to = packed + panel * PANEL * inputs;
        for (int64_t lane = 0; lane < PANEL; ++lane) {
            const int64_t row = panel * PANEL + lane;
            for (int64_t k = 0; k < inputs; ++k)
                to[k * PANEL + lane] = row < outputs ? matrix[row * inputs + k] : 0.0f;
        }
    }
}

// Panels that a tile brings nearer: from `first` to `stop`.
struct Part {
    int64_t first, stop;
};

// The position of tiles among all rows that take their products with the same panels: every tile
// fetches its part of the next ones. Of no rows: none is fetched.
struct Rows {
    int64_t first, all;
    Part of(int64_t row, int64_t some, int64_t panels) const {
        if (all == 0) return Part{0, 0};
        return Part{row * panels / all, (row + some) * panels / all};
    }
};
constexpr Rows NOTHING_NEXT{0, 0};

// The products of ROWS rows with PANELS neighbouring panels. Every sum is taken in the order of the
// inputs, so that a row has the same numbers in any tile. Meanwhile a part of the panels after
// these is brought nearer.
template <int ROWS, int PANELS>
inline void tile(const float *rows, int64_t stride, const float *packed, int64_t inputs, Part part,
                 Floats (&sums)[ROWS][VECTORS * PANELS]) {
    constexpr int WIDE = VECTORS * PANELS;
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < WIDE; ++c) sums[r][c] = all(0.0f);
    for (int64_t k = 0; k < inputs; ++k) {
        for (int64_t p = part.first; p < part.stop; ++p)
            __builtin_prefetch(packed + ((PANELS + p) * inputs + k) * PANEL, 0, 2);
        Floats weights[WIDE];
#pragma GCC unroll 8
        for (int c = 0; c < WIDE; ++c)
            weights[c] = load(packed + (c / VECTORS) * PANEL * inputs + k * PANEL +
                              (c % VECTORS) * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; ++r) {
            const Floats one = all(rows[r * stride + k]);
#pragma GCC unroll 8
            for (int c = 0; c < WIDE; ++c) sums[r][c] += one * weights[c];
        }
    }
}

template <int ROWS, int PANELS>
inline void tile_into(const float *rows, int64_t stride, const float *packed, int64_t inputs,
                      Part part, const float *bias, int64_t columns, float *out, int64_t out_stride) {
    constexpr int WIDE = VECTORS * PANELS;
    Floats sums[ROWS][WIDE];
    tile<ROWS, PANELS>(rows, stride, packed, inputs, part, sums);
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < WIDE; ++c) {
            float *to = out + r * out_stride + c * LANES;
            const int64_t left = columns - c * LANES;
            if (left >= LANES) {
                store(to, bias == nullptr ? sums[r][c] : sums[r][c] + load(bias + c * LANES));
            } else {
                for (int64_t lane = 0; lane < left; ++lane)
                    to[lane] = sums[r][c][lane] + (bias == nullptr ? 0.0f : bias[c * LANES + lane]);
            }
        }
}

// How many of `left` rows the next tile takes: as even as possible.
inline int64_t next_rows(int64_t left, int most) {
    const int64_t tiles = (left + most - 1) / most;
    return (left + tiles - 1) / tiles;
}

template <int PANELS>
inline void all_rows(const float *rows, int64_t count, int64_t stride, const float *packed,
                     int64_t inputs, const float *bias, int64_t columns, float *out,
                     int64_t out_stride, Rows part) {
    int64_t done = part.first;
    constexpr int FIT = SUMS / (VECTORS * PANELS), MOST = FIT < MOST_ROWS ? FIT : MOST_ROWS;
    while (count > 0) {
        const int64_t some = next_rows(count, MOST);
        const Part fetched = part.of(done, some, PANELS);
#define TILE(R) \
    case R: \
        if (R <= MOST) \
            tile_into<R <= MOST ? R : 1, PANELS>(rows, stride, packed, inputs, fetched, bias, \
                                                 columns, out, out_stride); \
        break;
        switch (some) {
            TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
        }
#undef TILE
        rows += some * stride, out += some * out_stride, count -= some, done += some;
    }
}

// Some columns for all rows. Registers for 12 sums: few rows take several panels at once, to keep
// the sums busy. For 24: always a block of 64.
inline void columns_of(const float *rows, int64_t count, int64_t stride, const float *packed,
                       int64_t inputs, const float *bias, int64_t columns, float *out,
                       int64_t out_stride, Rows part) {
    const int64_t together = SUMS == 24 || count == 1 ? 4 : count <= 3 ? 2 : 1;
    int64_t done = 0;
    while (done < columns) {
        const int64_t left = columns - done, panels = (left + PANEL - 1) / PANEL;
        const int64_t now = panels >= together ? together : 1;
        const float *from = packed + done * inputs, *plus = bias == nullptr ? nullptr : bias + done;
        if (now == 4)
            all_rows<4>(rows, count, stride, from, inputs, plus, left, out + done, out_stride,
                        part);
        else if (now == 2)
            all_rows<2>(rows, count, stride, from, inputs, plus, left, out + done, out_stride,
                        part);
        else
            all_rows<1>(rows, count, stride, from, inputs, plus, left, out + done, out_stride,
                        part);
        done += now * PANEL;
    }
}

inline void columns_of(const float *rows, int64_t count, int64_t stride, const float *packed,
                       int64_t inputs, const float *bias, int64_t columns, float *out,
                       int64_t out_stride) {
    columns_of(rows, count, stride, packed, inputs, bias, columns, out, out_stride, Rows{0, count});
}

// Share the parts of a step among threads if it takes long enough to wake them, and if the model is
// large: the steps of a small one take long only when many contexts are decoded together, and then
// the other cores are busy, too.
constexpr int64_t WORTH_SHARING = 16'000'000, LARGE_ROW = 1'000'000;  // products of 32 bits

inline void share(int64_t rows, int64_t products, void (*work)(void *, int64_t), void *argument,
                  int64_t parts) {
    if (products >= LARGE_ROW && rows * products >= WORTH_SHARING)
        return share_parts(work, argument, parts);
    for (int64_t part = 0; part < parts; ++part) work(argument, part);
}

struct Product {
    const float *rows, *packed, *bias;
    float *out;
    int64_t count, inputs, outputs, out_stride, part;
};

void columns_part(void *argument, int64_t part) {
    const Product *of = static_cast<const Product *>(argument);
    const int64_t first = part * of->part, left = of->outputs - first;
    columns_of(of->rows, of->count, of->inputs, of->packed + first * of->inputs, of->inputs,
               of->bias == nullptr ? nullptr : of->bias + first, left < of->part ? left : of->part,
               of->out + first, of->out_stride);
}

// out (rows, outputs) = rows (rows, inputs) times the packed matrix, and a bias if there is one.
void product(const float *rows, int64_t count, const float *packed, int64_t outputs,
             int64_t inputs, const float *bias, float *out, int64_t out_stride) {
    const int64_t part = 4 * BLOCK;
    Product of{rows, packed, bias, out, count, inputs, outputs, out_stride, part};
    share(count, outputs * inputs, columns_part, &of, (outputs + part - 1) / part);
}

inline float dot(const float *a, const float *b, int64_t size) {
    Floats first = all(0.0f), second = all(0.0f);
    int64_t i = 0;
    for (; i + 2 * LANES <= size; i += 2 * LANES) {
        first += load(a + i) * load(b + i);
        second += load(a + i + LANES) * load(b + i + LANES);
    }
    float total = sum(first + second);
    for (; i < size; ++i) total += a[i] * b[i];
    return total;
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
