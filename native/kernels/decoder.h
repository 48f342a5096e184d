// The C interface of the kernels: plain arrays and two records, nothing that needs a Python header.
//
// Matrices are (outputs, inputs). "Packed" is the layout of `pack_matrix`: panels of 16 outputs,
// input by input. All arrays belong to the caller.
#ifndef NEXTQUERY_DECODER_H
#define NEXTQUERY_DECODER_H

#include <stdint.h>

#define NEXTQUERY_ABI 2

enum { BLOCK = 64, PANEL = 16, PANEL_8 = 8 };

// The decoder of one model (Eq. 7 to 10). Sizes: d_e, d_h; V words, `width` = V in whole blocks.
typedef struct {
    int64_t words, width, word_size, state_size;
    const float *word_vectors;      // (V, d_e), or null: the model is not factored
    const float *word_inputs;       // packed (3 d_h + d_e, d_e): I_r, I_u, I, E_o
    const float *input_table;       // not factored: (V, 3 d_h)
    const float *previous_table;    // not factored: (V, d_e)
    const float *gate_bias;         // (3 d_h) or null
    const float *gates;             // packed (2 d_h, d_h): H_r, H_u
    const float *candidate;         // packed (d_h, d_h): H
    const float *output_state;      // packed (d_e, d_h): H_o
    const float *output_start;      // (d_e): b_o
    const float *output_vectors;    // (V, d_e): o_v as in the file
    const float *added;             // (width): biases of words, minus infinity for impossible ones
    const float *exact_vectors;     // packed (width, d_e), or null: no exact mode
    const int8_t *rough_vectors;    // layout of `pack_matrix_8`, or null: no fast mode
    const float *rough_scale;       // (width)
    const int32_t *rough_sums;      // (width)
    const float *attention_query;   // packed (d_h, d_h + d_e): A_q, or null: no copying
    const float *attention_output;  // packed (d_e, d_h): C_o
    const float *copy_gate;         // (2 d_h + d_e + 1): v, b
} Decoder;

// Contexts that are decoded together; `sources` are the words that can be copied.
typedef struct {
    int64_t contexts;
    const float *step_inputs;       // (contexts, 3 d_h): S s, or null
    const float *output_inputs;     // (contexts, d_e): S_o s, or null
    const int64_t *first_source;    // (contexts + 1), or null: nothing to copy
    const float *source_states;     // (sources, d_h): h_j
    const float *source_keys;       // (sources, d_h): A_k h_j / sqrt(d_h)
    const float *source_scores;     // (sources): r_age(j)
    const int64_t *source_places;   // (sources): which own word
    const int64_t *first_own;       // (contexts + 1)
    const int64_t *own_words;       // (own): ids, ascending in each context
    int64_t most_own;               // the largest number of own words of a context
} Contexts;

// What `predict` writes for each row, and `best` reads.
typedef struct {
    int64_t rows;
    const int64_t *contexts;        // (rows): ascending
    float *logits;                  // (rows, width)
    float *block_best;              // (rows, width / BLOCK)
    float *omega;                   // (rows, d_e)
    float *normaliser;              // (rows)
    float *log_pointer;             // (rows, most_own)
    float *log_softmax_share;       // (rows)
} Prediction;

// One set of kernels; `kernels.h` has the definitions, compiled once per instruction set.
typedef struct {
    void (*pack_matrix)(const float *, int64_t, int64_t, float *);
    void (*pack_matrix_8)(const float *, int64_t, int64_t, int8_t *, float *, int32_t *);
    void (*product)(const float *, int64_t, const float *, int64_t, int64_t, const float *,
                    float *, int64_t);
    void (*advance)(const Decoder *, const Contexts *, int64_t, const float *, const int64_t *,
                    const int64_t *, const int64_t *, float *, float *);
    void (*predict)(const Decoder *, const Contexts *, int64_t, const float *, const float *,
                    Prediction *);
    int64_t (*best)(const Decoder *, const Contexts *, int64_t, const Prediction *, int64_t,
                    int64_t, const double *, int64_t, int64_t *, int64_t *, double *, int64_t,
                    double *);
} Kernels;

#endif
