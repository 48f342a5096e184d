// A whole step of the search in one call: drop prefixes, add a word, predict the next one, report what
// ends. The caller judges what ended, and words that only a blocklist can judge, between two steps.
#ifndef NEXTQUERY_SEARCH_H
#define NEXTQUERY_SEARCH_H

#include "extension.h"

namespace NEXTQUERY_SET {
namespace {

constexpr int64_t UNKNOWN_WORD = 2;

// Calls `take` with every extension that counts: of each context `beam` that do not end, and what ends
// above the last of them.
template <typename Take> void each_extension(const Search *search, int64_t contexts, Take take) {
    const Extensions &found = search->found;
    for (int64_t context = 0; context < contexts; ++context) {
        int64_t unfinished = 0;
        for (int64_t i = found.first[context]; i < found.first[context + 1]; ++i) {
            if (search->refused[i]) continue;
            const bool ends = found.words[i] == END_OF_QUERY;
            if (unfinished == search->beam) break;
            unfinished += !ends;
            take(context, i, ends);
        }
    }
}

// Writes the queries that ended in this step, with their words.
void ended(Search *search, int64_t contexts) {
    int64_t count = 0;
    each_extension(search, contexts, [&](int64_t context, int64_t i, bool ends) {
        if (!ends) return;
        search->ended_contexts[count] = context;
        search->ended_totals[count] = search->found.totals[i];
        memcpy(search->ended_words + count * search->length,
               search->words[0] + search->found.rows[i] * search->longest, search->length * 8);
        ++count;
    });
    search->ended = count;
}

// The prefixes of the next step: those that do not end and are above the bound of their context.
void keep_prefixes(const Decoder *model, const Contexts *batch, Search *search) {
    const Extensions &found = search->found;
    int64_t rows = 0;
    each_extension(search, batch->contexts, [&](int64_t context, int64_t i, bool ends) {
        if (ends || !(found.totals[i] > search->bounds[context])) return;
        int64_t *words = search->words[1] + rows * search->longest;
        memcpy(words, search->words[0] + found.rows[i] * search->longest, search->length * 8);
        words[search->length] = search->last[rows] = found.words[i];
        search->read[rows] = found.words[i] < model->words ? found.words[i] : UNKNOWN_WORD;
        search->parents[rows] = found.rows[i];
        search->totals[rows] = found.totals[i];
        search->contexts[rows++] = context;
    });
    search->rows = rows;
    ++search->length;
    int64_t *words = search->words[0];
    search->words[0] = search->words[1], search->words[1] = words;
}

// The only extensions of queries that may not grow: their ends.
void only_ends(const Decoder *model, const Contexts *batch, Search *search) {
    Extensions &found = search->found;
    int64_t row = 0;
    for (int64_t context = 0; context < batch->contexts; ++context) {
        found.first[context] = row;
        for (; row < search->rows && search->contexts[row] == context; ++row) {
            found.rows[row] = row;
            found.words[row] = END_OF_QUERY;
            found.totals[row] =
                search->totals[row] +
                log_probability(model, batch, &search->prediction, row, END_OF_QUERY);
            found.doubtful[row] = 0;
        }
    }
    found.first[batch->contexts] = row;
    found.refused[0] = found.refused[1] = 0;
}

// One step. Returns how many prefixes it had, 0: the search is over; -1: the arrays are too small for the
// extensions; repeat the call with larger ones. In stage KEPT the caller writes `hidden` and `previous`
// of the rows and repeats the call in stage ADVANCED.
int64_t step(const Decoder *model, const Contexts *batch, int64_t fast, const Rules *rules,
             Search *search) {
    Prediction *prediction = &search->prediction;
    if (search->stage == EXTENDED) {
        keep_prefixes(model, batch, search);
        if (search->rows == 0) return 0;
        if (model->gates == nullptr) {
            search->stage = KEPT;
            return search->rows;
        }
        float *before = search->hidden[0];
        advance(model, batch, search->rows, before, search->parents, search->read,
                search->contexts, search->hidden[1], search->previous);
        search->hidden[0] = search->hidden[1], search->hidden[1] = before;
        search->stage = ADVANCED;
    }
    if (search->stage != PREDICTED) {
        prediction->rows = search->rows;
        predict(model, batch, fast, search->hidden[0],
                search->stage == STARTED ? nullptr : search->previous, prediction);
        search->stage = PREDICTED;
    }
    if (search->length >= search->longest)
        only_ends(model, batch, search);
    else if (extend(model, batch, fast, prediction, rules,
                    search->length == 0 ? nullptr : search->last, search->totals, search->beam,
                    &search->found) < 0)
        return -1;
    search->stage = EXTENDED;
    const int64_t count = search->found.first[batch->contexts];
    memset(search->refused, 0, count);
    search->doubtful = 0;
    for (int64_t i = 0; i < count; ++i) search->doubtful += search->found.doubtful[i];
    if (search->doubtful == 0) ended(search, batch->contexts);
    return search->rows;
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
