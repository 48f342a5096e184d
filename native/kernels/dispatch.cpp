// Chooses the kernels for this processor when the library is loaded, and names them for ctypes.
#include <stdlib.h>
#include <string.h>

#include "decoder.h"
#include "threads.h"

namespace baseline { const Kernels *kernels(); }
namespace avx2 { const Kernels *kernels(); }
namespace avx512 { const Kernels *kernels(); }

namespace {

const Kernels *chosen = baseline::kernels();
const char *chosen_name = "baseline";

void choose(const Kernels *kernels, const char *name) {
    chosen = kernels;
    chosen_name = name;
}

bool has_avx2() {
#if defined(__x86_64__) && defined(NEXTQUERY_X86)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__) && defined(NEXTQUERY_X86)
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
#else
    return false;
#endif
}

// The named kernels, if this processor can run them; null: the best that it can.
bool use(const char *name) {
#if defined(__x86_64__) && defined(NEXTQUERY_X86)
    if ((name == nullptr || strcmp(name, "avx512") == 0) && has_avx512())
        return choose(avx512::kernels(), "avx512"), true;
    if ((name == nullptr || strcmp(name, "avx2") == 0) && has_avx2())
        return choose(avx2::kernels(), "avx2"), true;
#endif
    if (name == nullptr || strcmp(name, "baseline") == 0)
        return choose(baseline::kernels(), "baseline"), true;
    return false;
}

const bool ready = use(nullptr);

}  // namespace

extern "C" {

int64_t nextquery_abi() { return NEXTQUERY_ABI; }

const char *nextquery_instructions() { return ready ? chosen_name : "baseline"; }

// For tests: other kernels than those of this processor (null: those again). What was packed with
// one set is read by that set only.
int64_t nextquery_use(const char *name) { return use(name); }

// The most threads that work on a step, if it is large enough.
void nextquery_threads(int64_t count) { use_threads(count); }

void nextquery_pack_matrix(const float *matrix, int64_t outputs, int64_t inputs, float *packed) {
    chosen->pack_matrix(matrix, outputs, inputs, packed);
}

void nextquery_pack_matrix_8(const float *matrix, int64_t outputs, int64_t inputs, int8_t *packed,
                             float *scale, int32_t *sums) {
    chosen->pack_matrix_8(matrix, outputs, inputs, packed, scale, sums);
}

void nextquery_product(const float *rows, int64_t count, const float *packed, int64_t outputs,
                       int64_t inputs, const float *bias, float *out) {
    chosen->product(rows, count, packed, outputs, inputs, bias, out, outputs);
}

void nextquery_advance(const Decoder *model, const Contexts *batch, int64_t rows,
                       const float *hidden, const int64_t *parents, const int64_t *words,
                       const int64_t *contexts, float *hidden_out, float *previous_out) {
    chosen->advance(model, batch, rows, hidden, parents, words, contexts, hidden_out, previous_out);
}

void nextquery_predict(const Decoder *model, const Contexts *batch, int64_t fast,
                       const float *hidden, const float *previous, Prediction *out) {
    chosen->predict(model, batch, fast, hidden, previous, out);
}

int64_t nextquery_best(const Decoder *model, const Contexts *batch, int64_t fast,
                       const Prediction *in, int64_t first, int64_t stop, const double *before,
                       int64_t count, int64_t *rows, int64_t *words, double *totals, int64_t capacity,
                       double *rest) {
    return chosen->best(model, batch, fast, in, first, stop, before, count, rows, words, totals,
                        capacity, rest);
}

void nextquery_score(const Decoder *model, const Contexts *batch, const Prediction *in,
                     int64_t count, const int64_t *rows, const int64_t *words, float *out) {
    chosen->score(model, batch, in, count, rows, words, out);
}

int64_t nextquery_step(const Decoder *model, const Contexts *batch, int64_t fast,
                       const Rules *rules, Search *search) {
    return chosen->step(model, batch, fast, rules, search);
}

// What ended, once the caller has said which doubtful extensions are refused.
void nextquery_ended(Search *search, int64_t contexts) { chosen->ended(search, contexts); }

// Reads symbols with a Transformer.
void nextquery_run_symbols(const Transformer *model, const Sessions *sessions,
                           const Symbols *symbols) {
    chosen->run_symbols(model, sessions, symbols);
}

// Pairs of words; null if there is no memory for them. The arrays must outlive them.
Pairs *nextquery_pairs_open(const uint64_t *keys, int64_t words, const uint64_t *common,
                            int64_t count) {
    uint64_t bits = 1024;
    while (bits < (uint64_t)count * 16 && bits < (uint64_t)1 << 32) bits *= 2;
    Pairs *made = static_cast<Pairs *>(malloc(sizeof(Pairs)));
    if (made == nullptr) return nullptr;
    *made = Pairs{keys, common, words, count, nullptr, bits - 1, nullptr};
    made->filter = static_cast<uint64_t *>(calloc(bits / 64, sizeof(uint64_t)));
    made->followers = static_cast<int32_t **>(calloc(words + 1, sizeof(int32_t *)));
    if (made->filter == nullptr || made->followers == nullptr) abort();
    for (int64_t i = 0; i < count; ++i)
        for (int shift = 0; shift <= 32; shift += 32) {
            const uint64_t place = common[i] >> shift & made->filter_mask;
            made->filter[place >> 6] |= (uint64_t)1 << (place & 63);
        }
    return made;
}

void nextquery_pairs_close(Pairs *pairs) {
    for (int64_t word = 0; word < pairs->words; ++word) free(pairs->followers[word]);
    free(pairs->followers);
    free(pairs->filter);
    free(pairs);
}

// The words that were typed after a word: their number, then their ids, ascending.
const int32_t *nextquery_followers(Pairs *pairs, int64_t word) {
    return chosen->followers(pairs, word);
}

}
