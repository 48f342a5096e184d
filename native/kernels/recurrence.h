// The recurrence of Eq. 3 over packed sequences, and its gradient, as training computes them.
#ifndef NEXTQUERY_RECURRENCE_H
#define NEXTQUERY_RECURRENCE_H

#include "products.h"

namespace NEXTQUERY_SET {
namespace {

// Up to a vector's worth of numbers where only `left` are there.
inline Floats some(const float *from, int64_t left) {
    if (left >= LANES) return load(from);
    Floats values = all(0.0f);
    for (int64_t lane = 0; lane < left; ++lane) values[lane] = from[lane];
    return values;
}
inline void put(float *to, Floats values, int64_t left) {
    if (left >= LANES) return store(to, values);
    for (int64_t lane = 0; lane < left; ++lane) to[lane] = values[lane];
}

// The packed layout of the transpose of a matrix (inputs, outputs).
void pack_transposed(const float *matrix, int64_t outputs, int64_t inputs, float *packed) {
    for (int64_t panel = 0; panel * PANEL < outputs; ++panel) {
        const float *from = matrix + panel * PANEL;
        float *to = packed + panel * PANEL * inputs;
        const int64_t left = outputs - panel * PANEL, wide = left < PANEL ? left : +PANEL;
        if (wide < PANEL) memset(to, 0, PANEL * inputs * 4);
        for (int64_t k = 0; k < inputs; ++k) memcpy(to + k * PANEL, from + k * outputs, wide * 4);
    }
}

// The rows of a step that are one thread's: every sequence belongs to one of `parts` threads, from
// its first step to its last, so that threads never wait for one another.
struct Mine {
    int64_t count, stride, first;  // `first` among all packed rows
};

inline Mine mine_of(const Recurrence *run, int64_t step, int64_t before, int64_t part) {
    const int64_t rows = run->rows[step];
    const int64_t count = rows > part ? (rows - part + run->parts - 1) / run->parts : 0;
    return Mine{count, run->parts, before + part};
}

// sigmoid of both gates of a row, and what the reset gate keeps of its state.
inline void open_gates(const float *in, const float *was, int64_t d, float *gates, float *kept) {
    for (int64_t i = 0; i < 2 * d; i += LANES) {
        const int64_t left = 2 * d - i;
        put(gates + i, sigmoid(some(gates + i, left) + some(in + i, left)), left);
    }
    for (int64_t i = 0; i < d; i += LANES)
        put(kept + i, some(gates + i, d - i) * some(was + i, d - i), d - i);
}

inline void next_state(const float *in, const float *was, const float *update, int64_t d,
                       float *candidate, float *state) {
    for (int64_t i = 0; i < d; i += LANES) {
        const int64_t left = d - i;
        const Floats old = some(was + i, left);
        const Floats now = tangent(some(candidate + i, left) + some(in + i, left));
        put(candidate + i, now, left);
        put(state + i, old + some(update + i, left) * (now - old), left);
    }
}

void recur_part(void *argument, int64_t part) {
    const Recurrence *run = static_cast<const Recurrence *>(argument);
    const int64_t d = run->size;
    const float *last = run->start + part * d;
    int64_t begin = 0;
    for (int64_t step = 0; step < run->steps; ++step) {
        const Mine mine = mine_of(run, step, begin, part);
        const int64_t stride = mine.stride * d;
        float *before = run->before + mine.first * d, *gates = run->gates + mine.first * 2 * d;
        float *kept = run->kept + mine.first * d, *candidates = run->candidates + mine.first * d;
        float *states = run->states + mine.first * d;
        const float *in = run->projected + mine.first * 3 * d;
        for (int64_t r = 0; r < mine.count; ++r)
            memcpy(before + r * stride, last + r * stride, d * 4);
        columns_of(before, mine.count, stride, run->gate_matrix, d, nullptr, 2 * d, gates,
                   2 * stride);
        for (int64_t r = 0; r < mine.count; ++r)
            open_gates(in + r * 3 * stride, before + r * stride, d, gates + r * 2 * stride,
                       kept + r * stride);
        columns_of(kept, mine.count, stride, run->candidate_matrix, d, nullptr, d, candidates,
                   stride);
        for (int64_t r = 0; r < mine.count; ++r)
            next_state(in + r * 3 * stride + 2 * d, before + r * stride, gates + r * 2 * stride + d,
                       d, candidates + r * stride, states + r * stride);
        last = states;
        begin += run->rows[step];
    }
}

// Back through the candidate and the update gate of a row; `passed` has what comes from the step
// behind and then what goes straight to the step before.
inline void candidate_slopes(const float *slope, const float *was, const float *update,
                             const float *candidate, int64_t d, float *inputs, float *passed) {
    for (int64_t i = 0; i < d; i += LANES) {
        const int64_t left = d - i;
        const Floats s = some(slope + i, left) + some(passed + i, left);
        const Floats u = some(update + i, left), c = some(candidate + i, left);
        const Floats taken = s * u;
        put(inputs + 2 * d + i, taken * (1.0f - c * c), left);
        put(inputs + d + i, (c - some(was + i, left)) * taken * (1.0f - u), left);
        put(passed + i, s - taken, left);
    }
}

inline void reset_slopes(const float *kept_slope, const float *was, const float *reset, int64_t d,
                         float *inputs, float *passed) {
    for (int64_t i = 0; i < d; i += LANES) {
        const int64_t left = d - i;
        const Floats through = some(kept_slope + i, left) * some(reset + i, left);
        put(inputs + i, through * some(was + i, left) * (1.0f - some(reset + i, left)), left);
        put(passed + i, some(passed + i, left) + through, left);
    }
}

void recur_back_part(void *argument, int64_t part) {
    static thread_local Scratch scratch;
    const Recurrence *run = static_cast<const Recurrence *>(argument);
    const int64_t d = run->size;
    int64_t begin = 0;
    for (int64_t step = 0; step < run->steps; ++step) begin += run->rows[step];
    for (int64_t step = run->steps - 1; step >= 0; --step) {
        begin -= run->rows[step];
        const Mine mine = mine_of(run, step, begin, part);
        const int64_t stride = mine.stride * d;
        const float *before = run->before + mine.first * d;
        const float *gates = run->gates + mine.first * 2 * d;
        float *inputs = run->input_slopes + mine.first * 3 * d;
        float *passed = run->start_slopes + part * d;
        float *made = scratch.of<float>(mine.count * d);
        for (int64_t r = 0; r < mine.count; ++r)
            candidate_slopes(run->state_slopes + mine.first * d + r * stride, before + r * stride,
                             gates + r * 2 * stride + d,
                             run->candidates + mine.first * d + r * stride, d,
                             inputs + r * 3 * stride, passed + r * stride);
        columns_of(inputs + 2 * d, mine.count, 3 * stride, run->candidate_matrix, d, nullptr, d,
                   made, d);
        for (int64_t r = 0; r < mine.count; ++r)
            reset_slopes(made + r * d, before + r * stride, gates + r * 2 * stride, d,
                         inputs + r * 3 * stride, passed + r * stride);
        columns_of(inputs, mine.count, 3 * stride, run->gate_matrix, 2 * d, nullptr, d, made, d);
        for (int64_t r = 0; r < mine.count; ++r)
            for (int64_t i = 0; i < d; i += LANES)
                put(passed + r * stride + i,
                    some(passed + r * stride + i, d - i) + some(made + r * d + i, d - i), d - i);
    }
}

void recur(Recurrence *run) { share_parts(recur_part, run, run->parts); }
void recur_back(Recurrence *run) { share_parts(recur_back_part, run, run->parts); }

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
