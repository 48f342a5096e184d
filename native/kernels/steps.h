// One step of the decoder (Eq. 8) and its attention over the session's words (copying).
#ifndef NEXTQUERY_STEPS_H
#define NEXTQUERY_STEPS_H

#include "products.h"

namespace NEXTQUERY_SET {
namespace {

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

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
