// Chooses the kernels for this processor when the library is loaded, and names them for ctypes.
#include "decoder.h"

namespace baseline { const Kernels *kernels(); }
namespace avx2 { const Kernels *kernels(); }

namespace {

const Kernels *chosen = baseline::kernels();
const char *chosen_name = "baseline";

bool choose_avx2() {
#if defined(__x86_64__) && defined(NEXTQUERY_AVX2)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        chosen = avx2::kernels();
        chosen_name = "avx2";
        return true;
    }
#endif
    return false;
}

const bool ready = choose_avx2();

}  // namespace

extern "C" {

int64_t nextquery_abi() { return NEXTQUERY_ABI; }

const char *nextquery_instructions() { return ready ? chosen_name : "baseline"; }

// For tests: the kernels of any processor, or again those of this one.
void nextquery_use_baseline(int64_t yes) {
    chosen = baseline::kernels();
    chosen_name = "baseline";
    if (!yes) choose_avx2();
}

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
                       int64_t count, int64_t *rows, int64_t *words, double *totals, int64_t room,
                       double *rest) {
    return chosen->best(model, batch, fast, in, first, stop, before, count, rows, words, totals,
                        room, rest);
}

}
