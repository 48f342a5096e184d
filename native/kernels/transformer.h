// The session Transformer (docs/model.md): symbols that follow sessions, through all blocks in one call.
#ifndef NEXTQUERY_TRANSFORMER_H
#define NEXTQUERY_TRANSFORMER_H

#include "products.h"

namespace NEXTQUERY_SET {
namespace {

constexpr float NORM_EPSILON = 1e-6f;

// x / sqrt(mean(x^2) + epsilon) * scale, row by row.
void rms_norm(const float *states, int64_t rows, int64_t size, const float *scale, float *out) {
    for (int64_t r = 0; r < rows; ++r) {
        const float *from = states + r * size;
        const float factor = 1.0f / sqrtf(dot(from, from, size) / (float)size + NORM_EPSILON);
        for (int64_t i = 0; i < size; ++i) out[r * size + i] = from[i] * (scale[i] * factor);
    }
}

// The tanh form of GELU, in place.
void gelu(float *values, int64_t count) {
    constexpr float ROOT = 0.7978845608028654f;  // sqrt(2 / pi)
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Floats x = load(values + i);
        const Floats inner = x * (ROOT + x * x * (0.044715f * ROOT));
        store(values + i, 0.5f * x * (1.0f + tangent(inner)));
    }
    for (; i < count; ++i) {
        const float x = values[i];
        values[i] = 0.5f * x * (1.0f + tanhf(x * (ROOT + x * x * 0.044715f * ROOT)));
    }
}

// Rotate the two halves of every head of a query or key by its position.
void rotate(const float *vector, int64_t heads, int64_t size, const float *cosines,
            const float *sines, float scale, float *out) {
    const int64_t half = size / 2;
    for (int64_t h = 0; h < heads; ++h, vector += size, out += size)
        for (int64_t i = 0; i < half; ++i) {
            const float left = vector[i] * scale, right = vector[half + i] * scale;
            out[i] = left * cosines[i] - right * sines[i];
            out[half + i] = left * sines[i] + right * cosines[i];
        }
}

// A stretch of a key-value cache: the keys of one layer, the values `d` further on.
struct Keys {
    const float *first;
    int64_t count, stride;
};

// Attention of one query (heads, size) to all keys of the parts; adds nothing to `out`, sets it.
void attend_to(const float *query, int64_t heads, int64_t size, const Keys *parts, int count,
               float *scores, float *out) {
    int64_t all_keys = 0, at = 0;
    for (int p = 0; p < count; ++p) all_keys += parts[p].count;
    for (int p = 0; p < count; ++p)
        for (int64_t k = 0; k < parts[p].count; ++k, ++at)
            for (int64_t h = 0; h < heads; ++h)
                scores[h * all_keys + at] =
                    dot(query + h * size, parts[p].first + k * parts[p].stride + h * size, size);
    for (int64_t h = 0; h < heads; ++h) {
        float *row = scores + h * all_keys, highest = row[0], total = 0.0f;
        for (int64_t k = 1; k < all_keys; ++k) highest = row[k] > highest ? row[k] : highest;
        for (int64_t k = 0; k < all_keys; ++k) total += row[k] = expf(row[k] - highest);
        for (int64_t k = 0; k < all_keys; ++k) row[k] /= total;
    }
    const int64_t d = heads * size;
    memset(out, 0, d * 4);
    at = 0;
    for (int p = 0; p < count; ++p)
        for (int64_t k = 0; k < parts[p].count; ++k, ++at) {
            const float *values = parts[p].first + k * parts[p].stride + d;
            for (int64_t h = 0; h < heads; ++h) {
                const float share = scores[h * all_keys + at];
                for (int64_t i = h * size; i < (h + 1) * size; ++i) out[i] += share * values[i];
            }
        }
}

// One symbol per row. A row sees the cache of its session, then those symbols of `cache` that are its
// own: `own_count` from `own_first` on, the last of which is the row itself and is written here. Rows
// may extend prefixes of their own, or follow each other.
void run_symbols(const Transformer *model, const Sessions *sessions, const Symbols *symbols) {
    static thread_local Scratch scratch;
    const int64_t rows = symbols->rows, e = model->word_size, d = model->state_size;
    const int64_t heads = model->heads, size = d / heads, stride = model->layers * 2 * d;
    int64_t most = 1;
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t seen = sessions->symbols[symbols->contexts[r]] + symbols->own_count[r];
        most = seen > most ? seen : most;
    }
    float *states = scratch.of<float>(rows * (d + d + d + 4 * d) + heads * most);
    float *normed = states + rows * d, *mixed = normed + rows * d;
    float *wide = mixed + rows * d, *scores = wide + rows * 4 * d;
    for (int64_t r = 0; r < rows; ++r)
        memcpy(symbols->previous + r * e, model->word_vectors + symbols->words[r] * e, e * 4);
    product(symbols->previous, rows, model->input, d, e, nullptr, states, d);
    for (int64_t layer = 0; layer < model->layers; ++layer) {
        const Block *block = model->blocks + layer;
        rms_norm(states, rows, d, block->attention_norm, normed);
        product(normed, rows, block->attention_input, 3 * d, d, nullptr, wide, 3 * d);
        for (int64_t r = 0; r < rows; ++r) {
            float *query = wide + r * 3 * d;
            const int64_t session = sessions->symbols[symbols->contexts[r]];
            const int64_t position = session + symbols->own_count[r] - 1;
            const float *cosines = model->cosines + position * (size / 2);
            const float *sines = model->sines + position * (size / 2);
            float *key = symbols->cache + layer * 2 * d +
                         (symbols->own_first[r] + symbols->own_count[r] - 1) * stride;
            rotate(query + d, heads, size, cosines, sines, 1.0f, key);
            memcpy(key + d, query + 2 * d, d * 4);
            rotate(query, heads, size, cosines, sines, 1.0f / sqrtf((float)size), normed + r * d);
        }
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t context = symbols->contexts[r];
            const Keys parts[2] = {
                {sessions->caches[context] + layer * 2 * d, sessions->symbols[context], stride},
                {symbols->cache + layer * 2 * d + symbols->own_first[r] * stride,
                 symbols->own_count[r], stride}};
            attend_to(normed + r * d, heads, size, parts, 2, scores, mixed + r * d);
        }
        product(mixed, rows, block->attention_output, d, d, nullptr, normed, d);
        for (int64_t i = 0; i < rows * d; ++i) states[i] += normed[i];
        rms_norm(states, rows, d, block->feed_norm, normed);
        product(normed, rows, block->feed_input, 4 * d, d, block->feed_input_bias, wide, 4 * d);
        gelu(wide, rows * 4 * d);
        product(wide, rows, block->feed_output, d, 4 * d, block->feed_output_bias, normed, d);
        for (int64_t i = 0; i < rows * d; ++i) states[i] += normed[i];
    }
    rms_norm(states, rows, d, model->norm, symbols->hidden);
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
