// The output layer (Eq. 9): products over the vocabulary in 32 bits, or in 8 bits that choose, with
// the maximum of every block of words and the normaliser in the same pass.
#ifndef NEXTQUERY_OUTPUT_H
#define NEXTQUERY_OUTPUT_H

#include "products.h"

namespace NEXTQUERY_SET {
namespace {

// The log of a sum of exponentials that grows block by block.
struct Normaliser {
    Floats parts;
    float highest;
};

// A block of logits: its largest, and its part of the normaliser.
template <bool ROUGH> inline float take_block(const float *logits, Normaliser &normaliser) {
    Floats best = load(logits);
    for (int i = LANES; i < BLOCK; i += LANES) best = larger(best, load(logits + i));
    const float highest = largest(best);
    if (highest > normaliser.highest) {
        normaliser.parts *= all(expf(normaliser.highest - highest));
        normaliser.highest = highest;
    }
    Floats part = all(0.0f);
    for (int i = 0; i < BLOCK; i += LANES)
        part += part_of_sum<ROUGH>(load(logits + i), normaliser.highest);
    normaliser.parts += part;
    return highest;
}

inline void add(Normaliser &to, const Normaliser &other) {
    const float highest = to.highest > other.highest ? to.highest : other.highest;
    to.parts = to.parts * all(expf(to.highest - highest)) +
               other.parts * all(expf(other.highest - highest));
    to.highest = highest;
}

inline float log_of(const Normaliser &normaliser) {
    double total = 0.0;
    for (int lane = 0; lane < LANES; ++lane) total += normaliser.parts[lane];
    return (float)(normaliser.highest + log(total));
}

// The logits (rows, BLOCK) of one block.
inline void exact_block(const Decoder *model, const float *omega, int64_t rows, int64_t block,
                        Rows part, float *logits) {
    const int64_t e = model->word_size, first = block * BLOCK;
    columns_of(omega, rows, e, model->exact_vectors + first * e, e, model->added + first, BLOCK,
               logits, BLOCK, part);
}

// A vector of words side by side, four inputs of each in a row: the layout of 8-bit dot products.
constexpr int PANEL_8 = LANES;
#ifdef __AVX512VNNI__
constexpr int TOGETHER_8 = 4, MOST_ROWS_8 = 6;  // panels and rows of a tile: 24 sums
constexpr int ZERO = 128, LARGEST = 127;        // sums of four products go straight into 32 bits
#else
constexpr int TOGETHER_8 = 2, MOST_ROWS_8 = 5;
constexpr int ZERO = 64, LARGEST = 63;          // 7 bits: sums of two products fit 16 bits
#endif

void pack_matrix_8(const float *matrix, int64_t outputs, int64_t inputs, int8_t *packed,
                   float *scale, int32_t *sums) {
    const int64_t groups = (inputs + 3) / 4;
    for (int64_t row = 0; row < outputs; ++row) {
        const float *from = matrix + row * inputs;
        const float highest = largest_size(from, inputs);
        scale[row] = (highest > 1e-8f ? highest : 1e-8f) / 127.0f;
        sums[row] = 0;
        int8_t *to = packed + row / PANEL_8 * PANEL_8 * groups * 4 + row % PANEL_8 * 4;
        for (int64_t k = 0; k < groups * 4; ++k) {
            const int8_t value = k < inputs ? (int8_t)lrintf(from[k] / scale[row]) : 0;
            to[k / 4 * PANEL_8 * 4 + k % 4] = value;
            sums[row] += value;
        }
    }
}

// A row as unsigned bytes around ZERO.
inline void in_bytes(const float *row, int64_t size, uint8_t *out, float *step) {
    const float found = largest_size(row, size), highest = found > 1e-30f ? found : 1e-30f;
    *step = highest / (float)LARGEST;
    const float times = (float)LARGEST / highest;
    int64_t i = 0;
#ifdef __AVX512F__
    for (; i + LANES <= size; i += LANES) {
        const __m512i whole = _mm512_cvtps_epi32((__m512)(load(row + i) * times));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i),
                         _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, _mm512_set1_epi32(ZERO))));
    }
#endif
    for (; i < size; ++i) out[i] = (uint8_t)(lrintf(row[i] * times) + ZERO);
    for (int64_t k = size; k % 4 != 0; ++k) out[k] = ZERO;
}

#ifdef __AVX512VNNI__
typedef __m512i Sums_8;
inline Sums_8 no_sums() { return _mm512_setzero_si512(); }
// By its name: with the intrinsic GCC 12 copies all sums, through memory, in every round.
inline Sums_8 four_products(Sums_8 sums, int32_t four, const int8_t *weights) {
    asm("vpdpbusd %2, %1, %0"
        : "+v"(sums)
        : "v"(_mm512_set1_epi32(four)), "v"(_mm512_loadu_si512(weights)));
    return sums;
}
inline Integers as_integers(Sums_8 sums) { return (Integers)sums; }
#elif defined(__AVX2__)
typedef __m256i Sums_8;
inline Sums_8 no_sums() { return _mm256_setzero_si256(); }
inline Sums_8 four_products(Sums_8 sums, int32_t four, const int8_t *weights) {
    __m256i one = _mm256_set1_epi32(four);
    asm volatile("" : "+x"(one));  // row by row: all at once would not fit the registers
    const __m256i pairs = _mm256_maddubs_epi16(
        one, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(weights)));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
inline Integers as_integers(Sums_8 sums) { return (Integers)sums; }
#else
typedef Integers Sums_8;
inline Sums_8 no_sums() { return Integers{}; }
inline Sums_8 four_products(Sums_8 sums, int32_t four, const int8_t *weights) {
    uint8_t row[4];
    memcpy(row, &four, 4);
    for (int word = 0; word < LANES; ++word)
        for (int k = 0; k < 4; ++k) sums[word] += row[k] * weights[4 * word + k];
    return sums;
}
inline Integers as_integers(Sums_8 sums) { return sums; }
#endif

template <int ROWS>
inline void rough_block(const Decoder *model, const uint8_t *rows, const float *steps,
                        int64_t groups, int64_t first, const int8_t *next, Part part,
                        float *logits) {
    for (int64_t word = first; word < first + BLOCK; word += TOGETHER_8 * PANEL_8) {
        const int8_t *packed = model->rough_vectors + word * groups * 4;
        Sums_8 sums[ROWS][TOGETHER_8];
        for (int r = 0; r < ROWS; ++r)
            for (int p = 0; p < TOGETHER_8; ++p) sums[r][p] = no_sums();
        const int8_t *ahead = next + (word - first) * groups * 4;  // the same place of the next
        for (int64_t g = 0; g < groups; ++g) {
            for (int64_t p = part.first; p < part.stop; ++p)
                __builtin_prefetch(ahead + (p * groups + g) * PANEL_8 * 4);
#pragma GCC unroll 6
            for (int r = 0; r < ROWS; ++r) {
                int32_t four;
                memcpy(&four, rows + (r * groups + g) * 4, 4);
#pragma GCC unroll 4
                for (int p = 0; p < TOGETHER_8; ++p)
                    sums[r][p] = four_products(sums[r][p], four,
                                               packed + (p * groups + g) * PANEL_8 * 4);
            }
        }
        for (int p = 0; p < TOGETHER_8; ++p) {
            const int64_t here = word + p * PANEL_8;
            const Floats scale = load(model->rough_scale + here), added = load(model->added + here);
            const Integers zero =
                *reinterpret_cast<const Integers *>(model->rough_sums + here) * ZERO;
            for (int r = 0; r < ROWS; ++r)
                store(logits + r * BLOCK + here - first,
                      __builtin_convertvector(as_integers(sums[r][p]) - zero, Floats) *
                              (scale * steps[r]) + added);
        }
    }
}

// Rows of omega as the 8-bit products take them.
struct RoughRows {
    uint8_t *bytes;
    float *steps;
    int64_t groups;
};

inline RoughRows rough_rows(const Decoder *model, const float *omega, int64_t rows,
                            Scratch &scratch) {
    const int64_t e = model->word_size, groups = (e + 3) / 4;
    float *steps = scratch.of<float>(rows + rows * groups + 16);
    RoughRows made{reinterpret_cast<uint8_t *>(steps + rows), steps, groups};
    for (int64_t r = 0; r < rows; ++r)
        in_bytes(omega + r * e, e, made.bytes + r * groups * 4, steps + r);
    return made;
}

// At most MOST_ROWS_8 rows, from `first` on; of the block `ahead` a part is fetched meanwhile.
inline void rough_block_of(const Decoder *model, const RoughRows &rows, int64_t first,
                           int64_t count, int64_t block, int64_t ahead, Rows part,
                           float *logits) {
    const int8_t *next = model->rough_vectors + ahead * BLOCK * rows.groups * 4;
    const Part fetched = part.of(part.first, count, TOGETHER_8);
    const uint8_t *bytes = rows.bytes + first * rows.groups * 4;
    const float *steps = rows.steps + first;
#define ROUGH(R) \
    case R: rough_block<R>(model, bytes, steps, rows.groups, block * BLOCK, next, fetched, logits); break;
    switch (count) {
        ROUGH(1) ROUGH(2) ROUGH(3) ROUGH(4) ROUGH(5) ROUGH(6)
    }
#undef ROUGH
}

// A pass over the vocabulary, in segments that threads can share. A segment has normalisers of its
// own, whoever computes it: the numbers are the same with any number of threads.
constexpr int64_t SEGMENT = 64;  // blocks

struct Pass {
    const Decoder *model;
    int64_t fast;
    Prediction *out;
    RoughRows rough;
    Normaliser *normalisers;  // (segments, rows)
};

// Maxima and normalisers of all rows. The logits of a block live on the stack: all of them would
// not fit the cache next to the weights.
void one_segment(void *argument, int64_t segment) {
    const Pass *pass = static_cast<const Pass *>(argument);
    const Decoder *model = pass->model;
    Prediction *out = pass->out;
    const int64_t e = model->word_size, blocks = model->width / BLOCK, count = out->rows;
    const int64_t first = segment * SEGMENT, stop = first + SEGMENT;
    Normaliser *normalisers = pass->normalisers + segment * count;
    for (int64_t r = 0; r < count; ++r) normalisers[r] = Normaliser{all(0.0f), -3e38f};
    alignas(64) float logits[MOST_ROWS * BLOCK];
    for (int64_t block = first; block < (stop < blocks ? stop : blocks); ++block)
        for (int64_t r = 0; r < count;) {
            const int64_t some = next_rows(count - r, pass->fast ? MOST_ROWS_8 : MOST_ROWS);
            if (pass->fast)
                rough_block_of(model, pass->rough, r, some, block, block + 1, Rows{r, count},
                               logits);
            else
                exact_block(model, out->omega + r * e, some, block, Rows{r, count}, logits);
            for (int64_t i = 0; i < some; ++i)
                out->block_best[(r + i) * blocks + block] =
                    pass->fast ? take_block<true>(logits + i * BLOCK, normalisers[r + i])
                               : take_block<false>(logits + i * BLOCK, normalisers[r + i]);
            r += some;
        }
}

void all_blocks(const Decoder *model, int64_t fast, Prediction *out) {
    static thread_local Scratch scratch, bytes;
    const int64_t blocks = model->width / BLOCK, segments = (blocks + SEGMENT - 1) / SEGMENT;
    const int64_t rows = out->rows;
    Pass pass{model, fast, out, RoughRows{}, scratch.of<Normaliser>(segments * rows)};
    if (fast) pass.rough = rough_rows(model, out->omega, rows, bytes);
    share(rows, model->width * model->word_size / (fast ? 4 : 1), one_segment, &pass, segments);
    for (int64_t r = 0; r < rows; ++r) {
        Normaliser total = pass.normalisers[r];
        for (int64_t segment = 1; segment < segments; ++segment)
            add(total, pass.normalisers[segment * rows + r]);
        out->normaliser[r] = log_of(total);
    }
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
