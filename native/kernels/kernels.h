// All kernels, written with GCC's vector types: included by one file per instruction set, which
// names its namespace NEXTQUERY_SET. Nothing here may use templates or inline functions of the
// standard library: the linker would be free to keep the copy that another processor cannot run.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "decoder.h"

namespace NEXTQUERY_SET {
namespace {

typedef float Floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(32), aligned(4), may_alias));

constexpr int LANES = 8;
constexpr int MOST_ROWS = 6;    // of a tile in 32 bits: 12 sums in registers
constexpr int MOST_ROWS_8 = 5;  // of a tile in 8 bits: 10 sums
constexpr int CORRECTED = 16;   // words per row whose 32-bit products enter the normaliser

inline Floats load(const float *from) { return *reinterpret_cast<const Floats *>(from); }
inline void store(float *to, Floats values) { *reinterpret_cast<Floats *>(to) = values; }
inline Floats all(float value) {
    return Floats{value, value, value, value, value, value, value, value};
}
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Floats smaller(Floats a, Floats b) { return a < b ? a : b; }

inline float sum(Floats v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
inline float largest(Floats v) {
    float best = v[0];
    for (int lane = 1; lane < LANES; ++lane) best = v[lane] > best ? v[lane] : best;
    return best;
}

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
inline Floats sigmoid(Floats x) { return 1.0f / (1.0f + exponential(-x)); }
inline Floats tangent(Floats x) { return 1.0f - 2.0f / (1.0f + exponential(x + x)); }

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

// ---- Products ------------------------------------------------------------------------------

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

// The products of ROWS rows with PANELS neighbouring panels.
template <int ROWS, int PANELS>
inline void tile(const float *rows, int64_t stride, const float *packed, int64_t inputs,
                 Floats (&sums)[ROWS][2 * PANELS]) {
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < 2 * PANELS; ++c) sums[r][c] = all(0.0f);
    for (int64_t k = 0; k < inputs; ++k) {
        Floats weights[2 * PANELS];
#pragma GCC unroll 8
        for (int c = 0; c < 2 * PANELS; ++c)
            weights[c] = load(packed + (c / 2) * PANEL * inputs + k * PANEL + (c % 2) * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; ++r) {
            const Floats one = all(rows[r * stride + k]);
#pragma GCC unroll 8
            for (int c = 0; c < 2 * PANELS; ++c) sums[r][c] += one * weights[c];
        }
    }
}

template <int ROWS, int PANELS>
inline void tile_into(const float *rows, int64_t stride, const float *packed, int64_t inputs,
                      const float *bias, int64_t columns, float *out, int64_t out_stride) {
    Floats sums[ROWS][2 * PANELS];
    tile<ROWS, PANELS>(rows, stride, packed, inputs, sums);
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < 2 * PANELS; ++c) {
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
                     int64_t out_stride) {
    while (count > 0) {
        const int64_t some = next_rows(count, PANELS == 4 ? 1 : PANELS == 2 ? 3 : MOST_ROWS);
#define TILE(R) \
    case R: tile_into<R, PANELS>(rows, stride, packed, inputs, bias, columns, out, out_stride); \
        break;
        switch (some) {
            TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
        }
#undef TILE
        rows += some * stride, out += some * out_stride, count -= some;
    }
}

// Some columns for all rows: few rows take several panels at once, to keep the sums busy.
inline void columns_of(const float *rows, int64_t count, int64_t stride, const float *packed,
                       int64_t inputs, const float *bias, int64_t columns, float *out,
                       int64_t out_stride) {
    const int64_t together = count == 1 ? 4 : count <= 3 ? 2 : 1;
    int64_t done = 0;
    while (done < columns) {
        const int64_t left = columns - done, panels = (left + PANEL - 1) / PANEL;
        const int64_t now = panels >= together ? together : 1;
        const float *from = packed + done * inputs, *plus = bias == nullptr ? nullptr : bias + done;
        if (now == 4)
            all_rows<4>(rows, count, stride, from, inputs, plus, left, out + done, out_stride);
        else if (now == 2)
            all_rows<2>(rows, count, stride, from, inputs, plus, left, out + done, out_stride);
        else
            all_rows<1>(rows, count, stride, from, inputs, plus, left, out + done, out_stride);
        done += now * PANEL;
    }
}

// out (rows, outputs) = rows (rows, inputs) times the packed matrix, and a bias if there is one.
void product(const float *rows, int64_t count, const float *packed, int64_t outputs,
             int64_t inputs, const float *bias, float *out, int64_t out_stride) {
    columns_of(rows, count, inputs, packed, inputs, bias, outputs, out, out_stride);
}

// ---- Eq. 8 ---------------------------------------------------------------------------------

// `d_n` (rows, d_h) and `E_o w_n` (rows, d_e) from the parents' `d_{n-1}` and the words `w_n`.
void advance(const Decoder *model, const Contexts *batch, int64_t rows, const float *hidden,
             const int64_t *parents, const int64_t *words, const int64_t *contexts,
             float *hidden_out, float *previous_out) {
    static thread_local Scratch scratch;
    const int64_t d = model->state_size, e = model->word_size, wide = 3 * d + e;
    float *inputs = scratch.of<float>(rows * (wide + e + 4 * d));
    float *vectors = inputs + rows * wide, *before = vectors + rows * e;
    float *gates = before + rows * d, *kept = gates + rows * 2 * d;
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t word = words[r];
        memcpy(before + r * d, hidden + (parents == nullptr ? r : parents[r]) * d, d * 4);
        if (model->word_vectors != nullptr) {
            memcpy(vectors + r * e, model->word_vectors + word * e, e * 4);
        } else {
            memcpy(inputs + r * wide, model->input_table + word * 3 * d, 3 * d * 4);
            memcpy(inputs + r * wide + 3 * d, model->previous_table + word * e, e * 4);
        }
    }
    if (model->word_vectors != nullptr)
        product(vectors, rows, model->word_inputs, wide, e, nullptr, inputs, wide);
    product(before, rows, model->gates, 2 * d, d, nullptr, gates, 2 * d);
    for (int64_t r = 0; r < rows; ++r) {
        float *in = inputs + r * wide;
        memcpy(previous_out + r * e, in + 3 * d, e * 4);
        if (model->gate_bias != nullptr)
            for (int64_t i = 0; i < 3 * d; ++i) in[i] += model->gate_bias[i];
        if (batch->step_inputs != nullptr) {
            const float *session = batch->step_inputs + contexts[r] * 3 * d;
            for (int64_t i = 0; i < 3 * d; ++i) in[i] += session[i];
        }
        float *gate = gates + r * 2 * d;
        int64_t i = 0;
        for (; i + LANES <= 2 * d; i += LANES)
            store(gate + i, sigmoid(load(gate + i) + load(in + i)));
        for (; i < 2 * d; ++i) gate[i] = 1.0f / (1.0f + expf(-(gate[i] + in[i])));
        for (i = 0; i < d; ++i) kept[r * d + i] = gate[i] * before[r * d + i];
    }
    product(kept, rows, model->candidate, d, d, nullptr, hidden_out, d);
    for (int64_t r = 0; r < rows; ++r) {
        const float *in = inputs + r * wide + 2 * d, *update = gates + r * 2 * d + d;
        const float *old = before + r * d;
        float *out = hidden_out + r * d;
        int64_t i = 0;
        for (; i + LANES <= d; i += LANES) {
            const Floats was = load(old + i), now = tangent(load(out + i) + load(in + i));
            store(out + i, was + load(update + i) * (now - was));
        }
        for (; i < d; ++i) out[i] = old[i] + update[i] * (tanhf(out[i] + in[i]) - old[i]);
    }
}

// ---- Copying -------------------------------------------------------------------------------

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

// log(1 / (1 + e^-x)) without overflow.
inline float log_sigmoid(float x) {
    return x < 0.0f ? x - log1pf(expf(x)) : -log1pf(expf(-x));
}

// Attention of all rows: adds `C_o c_n` to omega, writes the pointer's side of the mixture.
void attend(const Decoder *model, const Contexts *batch, int64_t rows, const float *hidden,
            const float *previous, Prediction *out) {
    static thread_local Scratch scratch;
    const int64_t d = model->state_size, e = model->word_size;
    int64_t most = 1;
    for (int64_t c = 0; c < batch->contexts; ++c) {
        const int64_t count = batch->first_source[c + 1] - batch->first_source[c];
        most = count > most ? count : most;
    }
    float *here = scratch.of<float>(rows * (d + e + d + d + e) + most);
    float *asked = here + rows * (d + e), *seen = asked + rows * d;
    float *added = seen + rows * d, *weights = added + rows * e;
    for (int64_t r = 0; r < rows; ++r) {
        memcpy(here + r * (d + e), hidden + r * d, d * 4);
        if (previous == nullptr)
            memset(here + r * (d + e) + d, 0, e * 4);
        else
            memcpy(here + r * (d + e) + d, previous + r * e, e * 4);
    }
    product(here, rows, model->attention_query, d, d + e, nullptr, asked, d);
    memset(seen, 0, rows * d * 4);
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t context = out->contexts[r];
        const int64_t first = batch->first_source[context];
        const int64_t count = batch->first_source[context + 1] - first;
        float *pointer = out->log_pointer + r * batch->most_own;
        for (int64_t own = 0; own < batch->most_own; ++own) pointer[own] = 0.0f;
        if (count == 0) {
            for (int64_t own = 0; own < batch->most_own; ++own) pointer[own] = -INFINITY;
            out->log_softmax_share[r] = 0.0f;
            continue;
        }
        float highest = -INFINITY, total = 0.0f;
        for (int64_t j = 0; j < count; ++j) {
            const float *key = batch->source_keys + (first + j) * d;
            weights[j] = dot(asked + r * d, key, d) + batch->source_scores[first + j];
            highest = weights[j] > highest ? weights[j] : highest;
        }
        for (int64_t j = 0; j < count; ++j) total += weights[j] = expf(weights[j] - highest);
        for (int64_t j = 0; j < count; ++j) {
            const float share = weights[j] / total;
            const float *state = batch->source_states + (first + j) * d;
            for (int64_t i = 0; i < d; ++i) seen[r * d + i] += share * state[i];
            pointer[batch->source_places[first + j]] += share;
        }
        const float gate = dot(here + r * (d + e), model->copy_gate, d + e) +
                           dot(seen + r * d, model->copy_gate + d + e, d) +
                           model->copy_gate[2 * d + e];
        const float copied = log_sigmoid(gate);
        out->log_softmax_share[r] = log_sigmoid(-gate);
        for (int64_t own = 0; own < batch->most_own; ++own)
            pointer[own] = copied + logf(pointer[own] > 1e-30f ? pointer[own] : 1e-30f);
    }
    product(seen, rows, model->attention_output, e, d, nullptr, added, e);
    for (int64_t i = 0; i < rows * e; ++i) out->omega[i] += added[i];
}

// ---- Eq. 9 ---------------------------------------------------------------------------------

// The log of a sum of exponentials that grows block by block.
struct Normaliser {
    float highest;
    double total;
};

// A block of logits that was just written: its largest, and its part of the normaliser.
inline float take_block(const float *logits, Normaliser &normaliser) {
    Floats best = load(logits);
    for (int i = LANES; i < BLOCK; i += LANES) best = larger(best, load(logits + i));
    const float highest = largest(best);
    if (highest > normaliser.highest) {
        normaliser.total *= exp(static_cast<double>(normaliser.highest) - highest);
        normaliser.highest = highest;
    }
    const Floats base = all(normaliser.highest);
    Floats part = all(0.0f);
    for (int i = 0; i < BLOCK; i += LANES) part += exponential(load(logits + i) - base);
    normaliser.total += sum(part);
    return highest;
}

void exact_logits(const Decoder *model, Prediction *out, Normaliser *normalisers) {
    const int64_t e = model->word_size, blocks = model->width / BLOCK;
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = block * BLOCK;
        columns_of(out->omega, out->rows, e, model->exact_vectors + first * e, e,
                   model->added + first, BLOCK, out->logits + first, model->width);
        for (int64_t r = 0; r < out->rows; ++r)
            out->block_best[r * blocks + block] =
                take_block(out->logits + r * model->width + first, normalisers[r]);
    }
}

// Eight words side by side, four inputs of each in a row: the layout of 8-bit dot products.
void pack_matrix_8(const float *matrix, int64_t outputs, int64_t inputs, int8_t *packed,
                   float *scale, int32_t *sums) {
    const int64_t groups = (inputs + 3) / 4;
    for (int64_t row = 0; row < outputs; ++row) {
        const float *from = matrix + row * inputs;
        float highest = 1e-8f;
        for (int64_t k = 0; k < inputs; ++k) {
            const float size = fabsf(from[k]);
            highest = size > highest ? size : highest;
        }
        scale[row] = highest / 127.0f;
        sums[row] = 0;
        int8_t *to = packed + row / PANEL_8 * PANEL_8 * groups * 4 + row % PANEL_8 * 4;
        for (int64_t k = 0; k < groups * 4; ++k) {
            const int8_t value = k < inputs ? (int8_t)lrintf(from[k] / scale[row]) : 0;
            to[k / 4 * PANEL_8 * 4 + k % 4] = value;
            sums[row] += value;
        }
    }
}

constexpr int ZERO = 64;  // rows are brought to 7 bits around it: sums of two products fit 16 bits

inline void in_7_bits(const float *row, int64_t size, uint8_t *out, float *step) {
    float highest = 1e-30f;
    for (int64_t k = 0; k < size; ++k) {
        const float value = fabsf(row[k]);
        highest = value > highest ? value : highest;
    }
    *step = highest / 63.0f;
    for (int64_t k = 0; k < size; ++k) out[k] = (uint8_t)(lrintf(row[k] / *step) + ZERO);
    for (int64_t k = size; k % 4 != 0; ++k) out[k] = ZERO;
}

template <int ROWS, int PANELS>
inline void tile_8(const uint8_t *rows, int64_t groups, const int8_t *packed,
                   int32_t (*sums)[PANELS * PANEL_8]) {
#ifdef __AVX2__
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i total[ROWS][PANELS];
    for (int r = 0; r < ROWS; ++r)
        for (int p = 0; p < PANELS; ++p) total[r][p] = _mm256_setzero_si256();
    for (int64_t g = 0; g < groups; ++g) {
        __m256i weights[PANELS];
#pragma GCC unroll 2
        for (int p = 0; p < PANELS; ++p)
            weights[p] = _mm256_loadu_si256(
                reinterpret_cast<const __m256i *>(packed + (p * groups + g) * 32));
#pragma GCC unroll 5
        for (int r = 0; r < ROWS; ++r) {
            int32_t four;
            memcpy(&four, rows + (r * groups + g) * 4, 4);
            __m256i one = _mm256_set1_epi32(four);
            asm volatile("" : "+x"(one));  // row by row: all at once would not fit the registers
#pragma GCC unroll 2
            for (int p = 0; p < PANELS; ++p)
                total[r][p] = _mm256_add_epi32(
                    total[r][p],
                    _mm256_madd_epi16(_mm256_maddubs_epi16(one, weights[p]), ones));
        }
    }
    for (int r = 0; r < ROWS; ++r)
        for (int p = 0; p < PANELS; ++p)
            _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums[r] + p * PANEL_8), total[r][p]);
#else
    for (int r = 0; r < ROWS; ++r)
        for (int word = 0; word < PANELS * PANEL_8; ++word) {
            int32_t total = 0;
            for (int64_t g = 0; g < groups; ++g)
                for (int k = 0; k < 4; ++k)
                    total += rows[(r * groups + g) * 4 + k] *
                             packed[(word / PANEL_8 * groups + g) * 32 + word % PANEL_8 * 4 + k];
            sums[r][word] = total;
        }
#endif
}

template <int ROWS>
inline void rough_block(const Decoder *model, const uint8_t *rows, const float *steps,
                        int64_t groups, int64_t first, float *logits) {
    constexpr int together = 2, wide = together * PANEL_8;
    for (int64_t word = first; word < first + BLOCK; word += wide) {
        int32_t sums[ROWS][wide];
        tile_8<ROWS, together>(rows, groups, model->rough_vectors + word * groups * 4, sums);
        for (int c = 0; c < wide; c += LANES) {
            const Floats scale = load(model->rough_scale + word + c);
            const Floats added = load(model->added + word + c);
            const Integers zero = *reinterpret_cast<const Integers *>(
                model->rough_sums + word + c) * ZERO;
            for (int r = 0; r < ROWS; ++r) {
                const Integers raw = *reinterpret_cast<const Integers *>(sums[r] + c) - zero;
                store(logits + r * model->width + word + c,
                      __builtin_convertvector(raw, Floats) * (scale * steps[r]) + added);
            }
        }
    }
}

void rough_logits(const Decoder *model, Prediction *out, Normaliser *normalisers) {
    static thread_local Scratch scratch;
    const int64_t e = model->word_size, groups = (e + 3) / 4, blocks = model->width / BLOCK;
    const int64_t count = out->rows;
    float *steps = scratch.of<float>(count + count * groups + 16);
    uint8_t *rows = reinterpret_cast<uint8_t *>(steps + count);
    for (int64_t r = 0; r < count; ++r)
        in_7_bits(out->omega + r * e, e, rows + r * groups * 4, steps + r);
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = block * BLOCK;
        for (int64_t r = 0; r < count;) {
            const int64_t some = next_rows(count - r, MOST_ROWS_8);
            float *logits = out->logits + r * model->width;
#define ROUGH(R) \
    case R: rough_block<R>(model, rows + r * groups * 4, steps + r, groups, first, logits); break;
            switch (some) {
                ROUGH(1) ROUGH(2) ROUGH(3) ROUGH(4) ROUGH(5)
            }
#undef ROUGH
            r += some;
        }
        for (int64_t r = 0; r < count; ++r)
            out->block_best[r * blocks + block] =
                take_block(out->logits + r * model->width + first, normalisers[r]);
    }
}

// ---- The best words ------------------------------------------------------------------------

struct Found {
    double total;
    int64_t row, word;
};

inline bool before(const Found &a, const Found &b) {
    if (a.total != b.total) return a.total > b.total;
    return a.row != b.row ? a.row < b.row : a.word < b.word;
}

int compare(const void *a, const void *b) {
    const Found &one = *static_cast<const Found *>(a), &other = *static_cast<const Found *>(b);
    return before(one, other) ? -1 : before(other, one) ? 1 : 0;
}

// The smallest of the `count` largest values seen: a heap with the smallest on top.
struct Largest {
    float *heap;
    int64_t count, used;
    void see(float value) {
        if (used == count) {
            if (!(value > heap[0])) return;
            sink(0, value);
            return;
        }
        int64_t place = used++;
        while (place > 0 && heap[(place - 1) / 2] > value) {
            heap[place] = heap[(place - 1) / 2];
            place = (place - 1) / 2;
        }
        heap[place] = value;
    }
    void sink(int64_t place, float value) {
        for (;;) {
            int64_t child = 2 * place + 1;
            if (child >= used) break;
            if (child + 1 < used && heap[child + 1] < heap[child]) ++child;
            if (!(heap[child] < value)) break;
            heap[place] = heap[child];
            place = child;
        }
        heap[place] = value;
    }
};

struct Candidates {
    Found *items = nullptr;
    int64_t used = 0, size = 0;
    ~Candidates() { free(items); }
    void add(double total, int64_t row, int64_t word) {
        if (used == size) {
            size = size == 0 ? 1024 : 2 * size;
            items = static_cast<Found *>(realloc(items, size * sizeof(Found)));
            if (items == nullptr) abort();
        }
        items[used++] = Found{total, row, word};
    }
};

// All words of rows `first` to `stop` among which are the `count` best by logit plus `shift`.
// The `count` largest entries lie in the `count` blocks of the largest maxima.
void gather(const Decoder *model, const Prediction *in, int64_t first, int64_t stop,
            const float *shift, int64_t count, Candidates &found) {
    static thread_local Scratch scratch;
    const int64_t blocks = model->width / BLOCK, number = (stop - first) * blocks;
    float least = -INFINITY;
    if (count < number) {
        Largest largest{scratch.of<float>(count), count, 0};
        for (int64_t r = first; r < stop; ++r)
            for (int64_t b = 0; b < blocks; ++b)
                largest.see(in->block_best[r * blocks + b] + shift[r - first]);
        least = largest.heap[0];
    }
    for (int64_t r = first; r < stop; ++r)
        for (int64_t b = 0; b < blocks; ++b) {
            if (!(in->block_best[r * blocks + b] + shift[r - first] >= least)) continue;
            const float *logits = in->logits + r * model->width + b * BLOCK;
            for (int64_t i = 0; i < BLOCK; ++i) {
                const float total = logits[i] + shift[r - first];
                if (total >= least && total > -INFINITY) found.add(total, r, b * BLOCK + i);
            }
        }
}

inline float exact_logit(const Decoder *model, const Prediction *in, int64_t row, int64_t word) {
    const int64_t e = model->word_size;
    return dot(model->output_vectors + word * e, in->omega + row * e, e) + model->added[word];
}

// Fast mode: 32-bit numbers for the likeliest words take the place of the 8-bit ones.
void correct(const Decoder *model, Prediction *out) {
    static thread_local Candidates likely;
    for (int64_t r = 0; r < out->rows; ++r) {
        const float rough = out->normaliser[r], none = 0.0f;
        likely.used = 0;
        gather(model, out, r, r + 1, &none, CORRECTED, likely);
        qsort(likely.items, likely.used, sizeof(Found), compare);
        double change = 0.0;
        for (int64_t i = 0; i < likely.used && i < CORRECTED; ++i) {
            const Found &each = likely.items[i];
            change += exp(exact_logit(model, out, r, each.word) - rough) - exp(each.total - rough);
        }
        out->normaliser[r] = rough + (float)log1p(change);
    }
}

// What may come next for each row (Eq. 9 and 10); `previous` is null before the first word.
void predict(const Decoder *model, const Contexts *batch, int64_t fast, const float *hidden,
             const float *previous, Prediction *out) {
    static thread_local Scratch scratch;
    const int64_t d = model->state_size, e = model->word_size, rows = out->rows;
    product(hidden, rows, model->output_state, e, d, model->output_start, out->omega, e);
    for (int64_t r = 0; r < rows; ++r) {
        float *omega = out->omega + r * e;
        if (batch->output_inputs != nullptr) {
            const float *session = batch->output_inputs + out->contexts[r] * e;
            for (int64_t i = 0; i < e; ++i) omega[i] += session[i];
        }
        if (previous != nullptr)
            for (int64_t i = 0; i < e; ++i) omega[i] += previous[r * e + i];
    }
    if (batch->first_source != nullptr) attend(model, batch, rows, hidden, previous, out);
    Normaliser *normalisers = scratch.of<Normaliser>(rows);
    for (int64_t r = 0; r < rows; ++r) normalisers[r] = Normaliser{-INFINITY, 0.0};
    if (fast)
        rough_logits(model, out, normalisers);
    else
        exact_logits(model, out, normalisers);
    for (int64_t r = 0; r < rows; ++r)
        out->normaliser[r] = (float)(normalisers[r].highest + log(normalisers[r].total));
    if (fast) correct(model, out);
}

// The place of a word among the own words of a context, -1 for none.
inline int64_t own_place(const Contexts *batch, int64_t context, int64_t word) {
    int64_t low = batch->first_own[context], stop = batch->first_own[context + 1], high = stop;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (batch->own_words[middle] < word) low = middle + 1;
        else high = middle;
    }
    return low < stop && batch->own_words[low] == word ? low - batch->first_own[context] : -1;
}

// The extensions of rows `first` to `stop` among which are the `count` best, best first; returns
// how many were written, at most `room`. No other has a total above `rest`.
int64_t best(const Decoder *model, const Contexts *batch, int64_t fast, const Prediction *in,
             int64_t first, int64_t stop, const double *before_totals, int64_t count,
             int64_t *out_rows, int64_t *out_words, double *out_totals, int64_t room,
             double *rest) {
    static thread_local Candidates found;
    static thread_local Scratch scratch;
    const bool copying = batch->first_source != nullptr;
    float *shift = scratch.of<float>(stop - first);
    for (int64_t r = first; r < stop; ++r)
        shift[r - first] = (float)before_totals[r - first] - in->normaliser[r] +
                           (copying ? in->log_softmax_share[r] : 0.0f);
    found.used = 0;
    gather(model, in, first, stop, shift, fast ? count + count / 2 + 16 : count, found);
    for (int64_t i = 0; i < found.used; ++i) {
        Found &each = found.items[i];
        const float logit = fast ? exact_logit(model, in, each.row, each.word)
                                 : in->logits[each.row * model->width + each.word];
        each.total = before_totals[each.row - first] +
                     ((double)logit - in->normaliser[each.row]) +
                     (copying ? in->log_softmax_share[each.row] : 0.0f);
    }
    qsort(found.items, found.used, sizeof(Found), compare);
    const int64_t listed = found.used < count ? found.used : count;
    // Exact: fewer than `count` were found only if no other word is possible.
    *rest = found.used < count + (fast ? 1 : 0) ? -INFINITY : found.items[listed - 1].total;
    found.used = listed;
    if (copying) {
        int64_t kept = 0;
        for (int64_t i = 0; i < listed; ++i)
            if (own_place(batch, in->contexts[found.items[i].row], found.items[i].word) < 0)
                found.items[kept++] = found.items[i];
        found.used = kept;
        for (int64_t r = first; r < stop; ++r) {
            const int64_t context = in->contexts[r], start = batch->first_own[context];
            for (int64_t own = start; own < batch->first_own[context + 1]; ++own) {
                const int64_t word = batch->own_words[own];
                double generated = -INFINITY;
                if (word < model->words) {
                    const float logit = fast ? exact_logit(model, in, r, word)
                                             : in->logits[r * model->width + word];
                    generated = (double)logit - in->normaliser[r] + in->log_softmax_share[r];
                }
                const double copied = in->log_pointer[r * batch->most_own + own - start];
                const double high = generated > copied ? generated : copied;
                const double low = generated > copied ? copied : generated;
                found.add(before_totals[r - first] + high + log1p(exp(low - high)), r, word);
            }
        }
        qsort(found.items, found.used, sizeof(Found), compare);
    }
    const int64_t written = found.used < room ? found.used : room;
    for (int64_t i = 0; i < written; ++i) {
        out_rows[i] = found.items[i].row - first;
        out_words[i] = found.items[i].word;
        out_totals[i] = found.items[i].total;
    }
    return written;
}

const Kernels KERNELS = {pack_matrix, pack_matrix_8, product, advance, predict, best};

}  // namespace
const Kernels *kernels() { return &KERNELS; }
}  // namespace NEXTQUERY_SET
