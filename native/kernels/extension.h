// The next words of prefixes that the rules allow: what a step of the search asks for.
#ifndef NEXTQUERY_EXTENSION_H
#define NEXTQUERY_EXTENSION_H

#include "pairs.h"
#include "selection.h"

namespace NEXTQUERY_SET {
namespace {

constexpr int64_t END_OF_QUERY = 1;
constexpr float MARGIN = 0.1f;  // by how much a block's 8-bit maximum may be too low

// One context of a step.
struct ContextPart {
    const Decoder *model;
    const Contexts *batch;
    const Prediction *in;
    const Rules *rules;
    const int64_t *last;  // (rows): the last word of each prefix, or null: all are empty
    const double *before;
    int64_t context, first, stop;
};

inline uint8_t flags_of(const ContextPart &part, int64_t word) {
    const int64_t outside = word - part.model->words;
    return outside < 0 ? part.rules->flags[word]
                       : part.rules->outside_flags[part.rules->first_outside[part.context] + outside];
}

inline uint64_t key_of(const ContextPart &part, int64_t word) {
    const int64_t outside = word - part.model->words;
    return outside < 0 ? part.rules->pairs->keys[word]
                       : part.rules->outside_keys[part.rules->first_outside[part.context] + outside];
}

// Whether the session itself has `second` right after `first`.
inline bool in_session(const ContextPart &part, int64_t first, int64_t second) {
    const uint64_t wanted = (uint64_t)first << 32 | (uint64_t)second;
    const int64_t *place = part.rules->first_pair + part.context;
    for (int64_t i = place[0]; i < place[1]; ++i)
        if (part.rules->own_pairs[i] == wanted) return true;
    return false;
}

inline bool is_rare(const ContextPart &part, int64_t row, int64_t word) {
    const Rules *rules = part.rules;
    if (rules->rare == nullptr || part.last == nullptr) return false;
    const uint64_t key = pair_key(key_of(part, part.last[row]), key_of(part, word));
    return in_bloom(rules->rare, rules->rare_bytes, key) && !is_common(rules->pairs, key) &&
           !in_session(part, part.last[row], word);
}

inline bool has(const int32_t *followers, int64_t word) {
    int32_t low = 1, high = followers[0] + 1;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (followers[middle] < word) low = middle + 1;
        else high = middle;
    }
    return low <= followers[0] && followers[low] == word;
}

// The words that K users or the session typed after the last word of each prefix; only those that
// can be among the best `beam`.
void gather_seen(const ContextPart &part, int64_t beam, Candidates &found) {
    static thread_local Scratch scratch, outside_scratch;
    const Decoder *model = part.model;
    const Contexts *batch = part.batch;
    const int64_t blocks = model->width / BLOCK, *pair = part.rules->first_pair + part.context;
    Largest largest{scratch.of<float>(beam), beam, 0};
    const auto offer = [&](int64_t row, int64_t word) {
        const uint8_t flags = flags_of(part, word);
        if (flags & NEVER) return;
        const double total = part.before[row] + log_probability(model, batch, part.in, row, word);
        const float least = largest.used == beam ? largest.heap[0] : -INFINITY;
        if (!(total >= least) || !(total > -INFINITY)) return;
        found.add(total, row, word);
        if (!(flags & (BLOCKED | DOUBTFUL))) largest.see((float)total - 1e-4f);
    };
    for (int64_t row = part.first; row < part.stop; ++row) {
        const int64_t last = part.last[row];
        const int32_t *after = last < model->words
                                   ? followers(part.rules->pairs, last)
                                   : followers_of(part.rules->pairs, key_of(part, last), outside_scratch);
        const float *best = part.in->block_best + row * blocks;
        const float share = batch->first_source ? part.in->log_softmax_share[row] : 0.0f;
        const float plus = (float)part.before[row] + MARGIN - part.in->normaliser[row] + share;
        for (int32_t i = 1; i <= after[0]; ++i) {
            if (largest.used == beam && best[after[i] / BLOCK] + plus < largest.heap[0]) continue;
            if (own_place(batch, part.context, after[i]) < 0) offer(row, after[i]);
        }
        for (int64_t i = pair[0]; i < pair[1]; ++i) {
            const int64_t second = part.rules->own_pairs[i] & 0xffffffff;
            if ((int64_t)(part.rules->own_pairs[i] >> 32) == last && second < model->words &&
                own_place(batch, part.context, second) < 0 && !has(after, second))
                offer(row, second);
        }
        if (batch->first_source != nullptr)
            for (int64_t own = batch->first_copied[part.context];
                 own < batch->first_copied[part.context + 1]; ++own) {
                const int64_t word = batch->copied_words[own];
                const bool common =
                    word < model->words
                        ? has(after, word)
                        : is_common(part.rules->pairs,
                                    pair_key(key_of(part, last), key_of(part, word)));
                if (common || in_session(part, last, word)) offer(row, word);
            }
        found.add(part.before[row] + log_probability(model, batch, part.in, row, END_OF_QUERY),
                  row, END_OF_QUERY);
    }
    sort_found(found.items, found.used);
}

// Writes what is allowed of `found`, until `beam` extensions that go on are certain. Returns how
// many were written; -1: more must be found; -2: the arrays are full.
int64_t write_allowed(const ContextPart &part, const Candidates &found, double rest, int64_t beam,
                      Extensions *out, int64_t used) {
    int64_t certain = 0, place = used, refused[2] = {0, 0};
    for (int64_t i = 0; i < found.used && certain < beam; ++i) {
        const Found &each = found.items[i];
        if (each.total < rest) return -1;
        const uint8_t flags = flags_of(part, each.word);
        if (flags & NEVER) continue;
        if (flags & BLOCKED) {
            ++refused[0];
            continue;
        }
        const bool ends = each.word == END_OF_QUERY;
        if (!ends && !part.rules->seen_only && is_rare(part, each.row, each.word)) {
            ++refused[1];
            continue;
        }
        const bool doubtful = !ends && part.last != nullptr && (flags & DOUBTFUL);
        if (place == out->capacity) return -2;
        out->rows[place] = each.row;
        out->words[place] = each.word;
        out->totals[place] = each.total;
        out->doubtful[place++] = doubtful;
        if (!ends && !doubtful) ++certain;
    }
    if (certain < beam && rest > -INFINITY) return -1;
    out->refused[0] += refused[0], out->refused[1] += refused[1];
    return place - used;
}

// For every context the best extensions that the rules allow: `beam` that go on, those that end
// above the last of them, and those between that the caller has to look at. Returns how many; -1
// if they do not fit.
int64_t extend(const Decoder *model, const Contexts *batch, int64_t fast, const Prediction *in,
               const Rules *rules, const int64_t *last, const double *before, int64_t beam,
               Extensions *out) {
    static thread_local Candidates found;
    int64_t used = 0, row = 0;
    out->refused[0] = out->refused[1] = 0;
    for (int64_t context = 0; context < batch->contexts; ++context) {
        out->first[context] = used;
        ContextPart part{model, batch, in, rules, last, before, context, row, row};
        while (part.stop < in->rows && in->contexts[part.stop] == context) ++part.stop;
        row = part.stop;
        if (part.first == part.stop) continue;
        int64_t written = -1;
        if (rules->seen_only && last != nullptr) {
            found.used = 0;
            gather_seen(part, beam, found);
            written = write_allowed(part, found, -INFINITY, beam, out, used);
        }
        for (int64_t count = 2 * beam; written == -1; count *= 4) {
            const double rest = find_best(model, batch, fast, in, part.first, part.stop,
                                          before + part.first, count, found);
            written = write_allowed(part, found, rest, beam, out, used);
        }
        if (written < 0) return -1;
        used += written;
    }
    out->first[batch->contexts] = used;
    return used;
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
