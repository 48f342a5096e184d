// The best words of a prediction: only blocks whose maximum can be among the best are looked into.
#ifndef NEXTQUERY_SELECTION_H
#define NEXTQUERY_SELECTION_H

#include "output.h"
#include "steps.h"

namespace NEXTQUERY_SET {
namespace {

constexpr int CORRECTED = 16;  // words per row whose 32-bit products enter the normaliser, at most
constexpr int64_t SOON = 4;  // how many words ahead vectors are fetched
constexpr float CORRECTED_RANGE = 5.0f;  // others have less than e^-5 of the likeliest's share

struct Found {
    double total;
    int64_t row, word;
};

inline bool before(const Found &a, const Found &b) {
    if (a.total != b.total) return a.total > b.total;
    return a.row != b.row ? a.row < b.row : a.word < b.word;
}

// Best first. Most lists are short: merging pieces needs no call for a comparison.
void sort_found(Found *items, int64_t count) {
    static thread_local Scratch scratch;
    constexpr int64_t PIECE = 12;
    for (int64_t first = 0; first < count; first += PIECE) {
        const int64_t stop = first + PIECE < count ? first + PIECE : count;
        for (int64_t i = first + 1; i < stop; ++i) {
            const Found each = items[i];
            int64_t place = i;
            for (; place > first && before(each, items[place - 1]); --place)
                items[place] = items[place - 1];
            items[place] = each;
        }
    }
    if (count <= PIECE) return;
    Found *from = items, *to = scratch.of<Found>(count);
    for (int64_t piece = PIECE; piece < count; piece *= 2) {
        for (int64_t first = 0; first < count; first += 2 * piece) {
            const int64_t middle = first + piece < count ? first + piece : count;
            const int64_t stop = first + 2 * piece < count ? first + 2 * piece : count;
            int64_t left = first, right = middle;
            for (int64_t i = first; i < stop; ++i) {
                const bool take_left =
                    right == stop || (left < middle && !before(from[right], from[left]));
                to[i] = take_left ? from[left++] : from[right++];
            }
        }
        Found *other = from;
        from = to, to = other;
    }
    if (from != items) memcpy(items, from, count * sizeof(Found));
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

inline float largest_of(const float *numbers, int64_t count) {
    float highest = -INFINITY;
    int64_t i = 0;
    if (count >= LANES) {
        Floats best = load(numbers);
        for (i = LANES; i + LANES <= count; i += LANES) best = larger(best, load(numbers + i));
        highest = largest(best);
    }
    for (; i < count; ++i) highest = numbers[i] > highest ? numbers[i] : highest;
    return highest;
}

// The places of those of `count` numbers that are at least `least`; returns how many.
inline int64_t places_of(const float *numbers, int64_t count, float least, int64_t *places) {
    int64_t found = 0, i = 0;
    for (; i + LANES <= count; i += LANES)
        for (uint32_t bits = at_least(load(numbers + i), least); bits != 0; bits &= bits - 1)
            places[found++] = i + __builtin_ctz(bits);
    for (; i < count; ++i)
        if (numbers[i] >= least) places[found++] = i;
    return found;
}

// Shows `largest` the `count` numbers plus `shift`.
inline void see_all(const float *numbers, int64_t count, float shift, Largest &largest) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Floats some = load(numbers + i) + shift;
        const float least = largest.used == largest.count ? largest.heap[0] : -INFINITY;
        for (uint32_t bits = at_least(some, least); bits != 0; bits &= bits - 1)
            largest.see(some[__builtin_ctz(bits)]);
    }
    for (; i < count; ++i) largest.see(numbers[i] + shift);
}

// All words of rows `first` to `stop` among which are the `count` best by logit plus `shift`, those
// below `least` left out. The `count` largest entries lie in the blocks of the largest maxima.
void gather(const Decoder *model, int64_t fast, const Prediction *in, int64_t first, int64_t stop,
            const float *shift, int64_t count, float least, Candidates &found) {
    static thread_local Scratch scratch, bytes, places;
    const int64_t blocks = model->width / BLOCK, number = (stop - first) * blocks;
    least = least > -3e38f ? least : -3e38f;  // the impossible are never found
    if (count < number) {
        Largest largest{scratch.of<float>(count), count, 0};
        for (int64_t r = first; r < stop; ++r)
            see_all(in->block_best + r * blocks, blocks, shift[r - first], largest);
        least = largest.heap[0] > least ? largest.heap[0] : least;
    }
    int64_t *chosen = places.of<int64_t>(blocks + BLOCK), *inside = chosen + blocks;
    const float *omega = in->omega + first * model->word_size;
    RoughRows rough{};
    if (fast) rough = rough_rows(model, omega, stop - first, bytes);
    alignas(64) float logits[BLOCK];
    for (int64_t r = first; r < stop; ++r) {
        const float plus = shift[r - first];
        // A little less, since a sum is rounded: each is compared again below.
        const float enough = least - plus - 1e-6f * (fabsf(least) + fabsf(plus));
        const int64_t some = places_of(in->block_best + r * blocks, blocks, enough, chosen);
        for (int64_t each = 0; each < some; ++each) {
            const int64_t b = chosen[each], ahead = chosen[each + 1 < some ? each + 1 : each];
            if (fast)
                rough_block_of(model, rough, r - first, 1, b, ahead, Rows{0, 1}, logits);
            else
                exact_block(model, in->omega + r * model->word_size, 1, b, NOTHING_NEXT, logits);
            const int64_t words = places_of(logits, BLOCK, enough, inside);
            for (int64_t i = 0; i < words; ++i) {
                const float total = logits[inside[i]] + plus;
                if (total >= least) found.add(total, r, b * BLOCK + inside[i]);
            }
        }
    }
}

inline float exact_logit(const Decoder *model, const Prediction *in, int64_t row, int64_t word) {
    const int64_t e = model->word_size;
    return dot(model->output_vectors + word * e, in->omega + row * e, e) + model->added[word];
}

// The vectors of words that will soon be asked for, brought nearer.
inline void fetch_vector(const Decoder *model, int64_t word) {
    const char *from = reinterpret_cast<const char *>(model->output_vectors + word * model->word_size);
    for (int64_t at = 0; at < model->word_size * 4; at += 64) __builtin_prefetch(from + at);
}

struct Correction {
    const Decoder *model;
    Prediction *out;
};

// Fast mode: 32-bit numbers for the likeliest words of a row take the place of the 8-bit ones.
void correct_row(void *argument, int64_t r) {
    static thread_local Candidates likely;
    const Decoder *model = static_cast<const Correction *>(argument)->model;
    Prediction *out = static_cast<const Correction *>(argument)->out;
    const float rough = out->normaliser[r], none = 0.0f;
    const int64_t blocks = model->width / BLOCK;
    const float highest = largest_of(out->block_best + r * blocks, blocks);
    likely.used = 0;
    gather(model, 1, out, r, r + 1, &none, CORRECTED, highest - CORRECTED_RANGE, likely);
    float heap[CORRECTED];
    Largest largest{heap, CORRECTED, 0};
    for (int64_t i = 0; i < likely.used; ++i) largest.see((float)likely.items[i].total);
    int64_t some = 0;
    for (int64_t i = 0; i < likely.used && some < CORRECTED; ++i)
        if (likely.items[i].total >= heap[0] || likely.used <= CORRECTED) {
            likely.items[some++] = likely.items[i];
            fetch_vector(model, likely.items[some - 1].word);
        }
    double change = 0.0;
    for (int64_t i = 0; i < some; ++i) {
        const Found &each = likely.items[i];
        change += exp(exact_logit(model, out, r, each.word) - rough) - exp(each.total - rough);
    }
    out->normaliser[r] = rough + (float)log1p(change);
}

// What may come next for each row (Eq. 9 and 10); `previous` is null before the first word. Only a
// recurrent decoder adds it to omega.
void predict(const Decoder *model, const Contexts *batch, int64_t fast, const float *hidden,
             const float *previous, Prediction *out) {
    const int64_t d = model->state_size, e = model->word_size, rows = out->rows;
    product(hidden, rows, model->output_state, e, d, model->output_start, out->omega, e);
    for (int64_t r = 0; r < rows; ++r) {
        float *omega = out->omega + r * e;
        if (batch->output_inputs != nullptr) {
            const float *session = batch->output_inputs + out->contexts[r] * e;
            for (int64_t i = 0; i < e; ++i) omega[i] += session[i];
        }
        if (previous != nullptr && model->gates != nullptr)
            for (int64_t i = 0; i < e; ++i) omega[i] += previous[r * e + i];
    }
    if (batch->first_source != nullptr) attend(model, batch, rows, hidden, previous, out);
    all_blocks(model, fast, out);
    if (!fast) return;
    Correction correction{model, out};
    share(rows, model->width * e / 4, correct_row, &correction, rows);
}

// The column of a word among the words that a context can copy, -1 for none.
inline int64_t own_place(const Contexts *batch, int64_t context, int64_t word) {
    if (batch->first_source == nullptr) return -1;
    int64_t low = batch->first_copied[context], stop = batch->first_copied[context + 1], high = stop;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (batch->copied_words[middle] < word) low = middle + 1;
        else high = middle;
    }
    return low < stop && batch->copied_words[low] == word ? low - batch->first_copied[context] : -1;
}

// What the softmax gives a word of the vocabulary, without its end of the mixture.
inline double generated(const Decoder *model, const Contexts *batch, const Prediction *in,
                        int64_t row, int64_t word) {
    const double share = batch->first_source == nullptr ? 0.0f : in->log_softmax_share[row];
    return (double)exact_logit(model, in, row, word) - in->normaliser[row] + share;
}

// The log-probability of any word: the generated part and, for words of the session, the copied part.
inline double log_probability(const Decoder *model, const Contexts *batch, const Prediction *in,
                              int64_t row, int64_t word) {
    const int64_t place = own_place(batch, in->contexts[row], word);
    const double made =
        word < model->words ? generated(model, batch, in, row, word) : -INFINITY;
    if (place < 0) return made;
    const double copied = in->log_pointer[row * batch->most_copied + place];
    const double high = made > copied ? made : copied, low = made > copied ? copied : made;
    return high + log1p(exp(low - high));
}

// The log-probabilities of `count` given words of given rows.
void score(const Decoder *model, const Contexts *batch, const Prediction *in, int64_t count,
           const int64_t *rows, const int64_t *words, float *out) {
    for (int64_t i = 0; i < count; ++i)
        out[i] = (float)log_probability(model, batch, in, rows[i], words[i]);
}

// The `count` best, and those that rounding may have put just after them.
void keep_largest(Candidates &found, int64_t count) {
    static thread_local Scratch scratch;
    if (found.used <= count) return;
    Largest largest{scratch.of<float>(count), count, 0};
    for (int64_t i = 0; i < found.used; ++i) largest.see((float)found.items[i].total);
    const float least = largest.heap[0] - 1e-4f;
    int64_t kept = 0;
    for (int64_t i = 0; i < found.used; ++i)
        if (found.items[i].total >= least) found.items[kept++] = found.items[i];
    found.used = kept;
}

// The extensions of rows `first` to `stop` among which are the `count` best, best first, and all
// those by words of the session; no other has a total above what is returned.
double find_best(const Decoder *model, const Contexts *batch, int64_t fast, const Prediction *in,
                 int64_t first, int64_t stop, const double *before_totals, int64_t count,
                 Candidates &found) {
    static thread_local Scratch scratch;
    const bool copying = batch->first_source != nullptr;
    float *shift = scratch.of<float>(stop - first);
    for (int64_t r = first; r < stop; ++r)
        shift[r - first] = (float)before_totals[r - first] - in->normaliser[r] +
                           (copying ? in->log_softmax_share[r] : 0.0f);
    found.used = 0;
    const int64_t scored = fast ? count + count / 2 + 16 : count;
    gather(model, fast, in, first, stop, shift, scored, -INFINITY, found);
    keep_largest(found, scored);
    for (int64_t i = 0; i < found.used; ++i) {
        Found &each = found.items[i];
        if (i + SOON < found.used) fetch_vector(model, found.items[i + SOON].word);
        each.total = before_totals[each.row - first] +
                     generated(model, batch, in, each.row, each.word);
    }
    sort_found(found.items, found.used);
    const int64_t listed = found.used < count ? found.used : count;
    // Exact: fewer than `count` were found only if no other word is possible.
    const double rest = found.used < count + (fast ? 1 : 0) ? -INFINITY
                                                            : found.items[listed - 1].total;
    found.used = listed;
    if (!copying) return rest;
    int64_t kept = 0;
    for (int64_t i = 0; i < listed; ++i)
        if (own_place(batch, in->contexts[found.items[i].row], found.items[i].word) < 0)
            found.items[kept++] = found.items[i];
    found.used = kept;
    for (int64_t r = first; r < stop; ++r) {
        const int64_t context = in->contexts[r];
        for (int64_t i = batch->first_copied[context]; i < batch->first_copied[context + 1]; ++i)
            found.add(before_totals[r - first] +
                          log_probability(model, batch, in, r, batch->copied_words[i]),
                      r, batch->copied_words[i]);
    }
    sort_found(found.items, found.used);
    return rest;
}

// The same into arrays; returns how many were written, at most `capacity`.
int64_t best(const Decoder *model, const Contexts *batch, int64_t fast, const Prediction *in,
             int64_t first, int64_t stop, const double *before_totals, int64_t count,
             int64_t *out_rows, int64_t *out_words, double *out_totals, int64_t capacity,
             double *rest) {
    static thread_local Candidates found;
    *rest = find_best(model, batch, fast, in, first, stop, before_totals, count, found);
    const int64_t written = found.used < capacity ? found.used : capacity;
    for (int64_t i = 0; i < written; ++i) {
        out_rows[i] = found.items[i].row - first;
        out_words[i] = found.items[i].word;
        out_totals[i] = found.items[i].total;
    }
    return written;
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
