// One step of the decoder (Eq. 8) and its attention over the session's words (copying).
#ifndef NEXTQUERY_STEPS_H
#define NEXTQUERY_STEPS_H

#include "products.h"

namespace NEXTQUERY_SET {
namespace {

// Equal numbers found once: `first` has the place of each one's first, `places` which of these
// every number is. Returns how many different ones there are.
int64_t distinct(const int64_t *numbers, int64_t count, int64_t *first, int64_t *places) {
    static thread_local Scratch scratch;
    int64_t size = 16, found = 0;
    while (size < 2 * count) size *= 2;
    int64_t *table = scratch.of<int64_t>(size);
    for (int64_t i = 0; i < size; ++i) table[i] = -1;
    for (int64_t i = 0; i < count; ++i) {
        int64_t at = (int64_t)((uint64_t)numbers[i] * 0x9E3779B97F4A7C15u >> 32) & (size - 1);
        while (table[at] >= 0 && numbers[first[table[at]]] != numbers[i]) at = (at + 1) & (size - 1);
        if (table[at] < 0) {
            first[found] = i;
            table[at] = found++;
        }
        places[i] = table[at];
    }
    return found;
}

// What the gates are given by words: `I_r w`, `I_u w`, `I w` and `E_o w`, one row per word.
const float *word_inputs(const Decoder *model, const int64_t *words, const int64_t *first,
                         int64_t count, Scratch &scratch) {
    const int64_t d = model->state_size, e = model->word_size, wide = 3 * d + e;
    float *inputs = scratch.of<float>(count * (wide + e)), *vectors = inputs + count * wide;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t word = words[first[i]];
        if (model->word_vectors != nullptr) {
            memcpy(vectors + i * e, model->word_vectors + word * e, e * 4);
        } else {
            memcpy(inputs + i * wide, model->input_table + word * 3 * d, 3 * d * 4);
            memcpy(inputs + i * wide + 3 * d, model->previous_table + word * e, e * 4);
        }
    }
    if (model->word_vectors != nullptr)
        product(vectors, count, model->word_inputs, wide, e, nullptr, inputs, wide);
    return inputs;
}

// The reset and update gates of a row from what its parent and its word give to them.
inline void open_gates(const float *recalled, const float *in, const float *bias,
                       const float *session, int64_t size, float *gates) {
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        Floats given = load(recalled + i) + load(in + i);
        if (bias != nullptr) given += load(bias + i);
        if (session != nullptr) given += load(session + i);
        store(gates + i, sigmoid(given));
    }
    for (; i < size; ++i) {
        const float more = (bias == nullptr ? 0.0f : bias[i]) + (session == nullptr ? 0.0f : session[i]);
        gates[i] = 1.0f / (1.0f + expf(-(recalled[i] + in[i] + more)));
    }
}

// `d_n` (rows, d_h) and `E_o w_n` (rows, d_e) from the parents' `d_{n-1}` and the words `w_n`: the GRU
// step of the compiled search. Rows with the same parent share its products, rows with the same word
// those of the word, which separate calls from Python could not.
void advance(const Decoder *model, const Contexts *batch, int64_t rows, const float *hidden,
             const int64_t *parents, const int64_t *words, const int64_t *contexts,
             float *hidden_out, float *previous_out) {
    static thread_local Scratch scratch, of_words, numbers;
    const int64_t d = model->state_size, e = model->word_size, wide = 3 * d + e;
    int64_t *first = numbers.of<int64_t>(3 * rows), *word = first + rows, *parent = word + rows;
    const int64_t different = distinct(words, rows, first, word);
    const float *inputs = word_inputs(model, words, first, different, of_words);
    const int64_t families = distinct(parents, rows, first, parent);
    float *before = scratch.of<float>(families * 3 * d + rows * 3 * d);
    float *recalled = before + families * d, *gates = recalled + families * 2 * d;
    float *kept = gates + rows * 2 * d;
    for (int64_t i = 0; i < families; ++i)
        memcpy(before + i * d, hidden + parents[first[i]] * d, d * 4);
    product(before, families, model->gates, 2 * d, d, nullptr, recalled, 2 * d);
    const float *bias = model->gate_bias;
    const auto session = [&](int64_t r) {
        return batch->step_inputs == nullptr ? nullptr : batch->step_inputs + contexts[r] * 3 * d;
    };
    for (int64_t r = 0; r < rows; ++r) {
        const float *in = inputs + word[r] * wide, *old = before + parent[r] * d;
        memcpy(previous_out + r * e, in + 3 * d, e * 4);
        float *gate = gates + r * 2 * d;
        open_gates(recalled + parent[r] * 2 * d, in, bias, session(r), 2 * d, gate);
        for (int64_t i = 0; i < d; ++i) kept[r * d + i] = gate[i] * old[i];
    }
    product(kept, rows, model->candidate, d, d, nullptr, hidden_out, d);
    for (int64_t r = 0; r < rows; ++r) {
        const float *in = inputs + word[r] * wide + 2 * d, *update = gates + r * 2 * d + d;
        const float *old = before + parent[r] * d, *more = session(r);
        float *out = hidden_out + r * d;
        for (int64_t i = 0; i < d; ++i) {
            out[i] += in[i];
            if (bias != nullptr) out[i] += bias[2 * d + i];
            if (more != nullptr) out[i] += more[2 * d + i];
        }
        int64_t i = 0;
        for (; i + LANES <= d; i += LANES) {
            const Floats was = load(old + i), now = tangent(load(out + i));
            store(out + i, was + load(update + i) * (now - was));
        }
        for (; i < d; ++i) out[i] = old[i] + update[i] * (tanhf(out[i]) - old[i]);
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
        float *pointer = out->log_pointer + r * batch->most_copied;
        for (int64_t column = 0; column < batch->most_copied; ++column) pointer[column] = 0.0f;
        if (count == 0) {
            for (int64_t column = 0; column < batch->most_copied; ++column) pointer[column] = -INFINITY;
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
            pointer[batch->source_columns[first + j]] += share;
        }
        const float gate = dot(here + r * (d + e), model->copy_gate, d + e) +
                           dot(seen + r * d, model->copy_gate + d + e, d) +
                           model->copy_gate[2 * d + e];
        const float copied = log_sigmoid(gate);
        out->log_softmax_share[r] = log_sigmoid(-gate);
        for (int64_t column = 0; column < batch->most_copied; ++column)
            pointer[column] = copied + logf(pointer[column] > 1e-30f ? pointer[column] : 1e-30f);
    }
    product(seen, rows, model->attention_output, e, d, nullptr, added, e);
    for (int64_t i = 0; i < rows * e; ++i) out->omega[i] += added[i];
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
