// The C interface of the kernels: records of plain arrays, nothing that needs a Python header.
// `inference/native.py` declares the same records; change both and increase NEXTQUERY_ABI.
//
// Matrices are (outputs, inputs). "Packed" is the layout of `pack_matrix`: panels of 16 outputs,
// input by input. All arrays belong to the caller.
#ifndef NEXTQUERY_DECODER_H
#define NEXTQUERY_DECODER_H

#include <stdint.h>

#define NEXTQUERY_ABI 6

enum { BLOCK = 64, PANEL = 16 };

// The decoder of one model (Eq. 7 to 10). Sizes: d_e, d_h; V words, `width` = V in whole blocks. Of a
// Transformer it is the output layer and copying: `gates` is null, and the caller makes the states.
typedef struct {
    int64_t words, width, word_size, state_size;
    const float *word_vectors;      // (V, d_e), or null: the model is not factored
    const float *word_inputs;       // packed (3 d_h + d_e, d_e): I_r, I_u, I, E_o
    const float *input_table;       // not factored: (V, 3 d_h)
    const float *previous_table;    // not factored: (V, d_e)
    const float *gate_bias;         // (3 d_h) or null
    const float *gates;             // packed (2 d_h, d_h): H_r, H_u; null: not recurrent
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
    const int64_t *source_columns;   // (sources): which of the words below
    const int64_t *first_copied;       // (contexts + 1)
    const int64_t *copied_words;       // (copied): ids, distinct and ascending in each context
    int64_t most_copied;               // the largest number of words of a context
} Contexts;

// What `predict` writes for each row, and `best`, `score` and `extend` read. The logits themselves
// are not kept: those of the few blocks and words that matter are computed again.
typedef struct {
    int64_t rows;
    const int64_t *contexts;        // (rows): ascending
    float *block_best;              // (rows, width / BLOCK): the largest logit of each block
    float *omega;                   // (rows, d_e)
    float *normaliser;              // (rows)
    float *log_pointer;             // (rows, most_copied)
    float *log_softmax_share;       // (rows)
} Prediction;

// Why a word is refused independently of the words before it, and when the caller has to decide.
enum { NEVER = 1, BLOCKED = 2, DOUBTFUL = 4 };

// Pairs of words that at least K users typed, with the followers of each word found so far.
typedef struct {
    const uint64_t *keys;           // (V): fingerprints of the words
    const uint64_t *common;         // (count): fingerprints of the pairs, ascending
    int64_t words, count;
    uint64_t *filter;               // a bit filter over `common`
    uint64_t filter_mask;
    int32_t **followers;            // (V): null, or how many and then the ids, ascending
} Pairs;

// What the guard says of words and pairs, for the contexts of a batch.
typedef struct {
    Pairs *pairs;
    int64_t seen_only;              // only pairs of words that K users or the session typed
    const uint8_t *rare;            // Bloom filter over the pairs of fewer users, or null
    int64_t rare_bytes;
    const uint8_t *flags;           // (V): NEVER, BLOCKED, DOUBTFUL
    const int64_t *first_outside;   // (contexts + 1): words of the session outside the vocabulary
    const uint64_t *outside_keys;
    const uint8_t *outside_flags;
    const int64_t *first_pair;      // (contexts + 1): pairs of the session's own queries
    const uint64_t *own_pairs;      // first word << 32 | second, ascending in each context
} Rules;

// Extensions of prefixes, grouped by context, best first.
typedef struct {
    int64_t capacity;
    int64_t *first;                 // (contexts + 1)
    int64_t *rows, *words;          // (capacity)
    double *totals;                 // (capacity)
    uint8_t *doubtful;              // (capacity)
    int64_t refused[2];             // because they are blocked; because their pair is rare
} Extensions;

// How far a step has come. KEPT: a decoder without `gates` waits for the states of the new prefixes.
enum { STARTED, ADVANCED, PREDICTED, EXTENDED, KEPT };

// A search: its live prefixes, all of one length and those of a context together, best first.
typedef struct {
    int64_t beam, longest;          // how many prefixes a context keeps, of how many words at most
    int64_t stage, rows, length, doubtful, ended;
    int64_t *words[2];              // (most rows, longest): of the prefixes, and for the next ones
    int64_t *last, *read, *parents; // (most rows): last word, the same as it is read, parent's row
    int64_t *contexts;              // (most rows): ascending
    double *totals;                 // (most rows)
    double *bounds;                 // (contexts): prefixes that are no more likely are dropped; by the caller
    float *hidden[2];               // (most rows, d_h)
    float *previous;                // (most rows, d_e)
    Prediction prediction;
    Extensions found;
    uint8_t *refused;               // (capacity): by the caller, of those that are doubtful
    int64_t *ended_contexts;        // (capacity)
    int64_t *ended_words;           // (capacity, longest), one query of `length` words after the other
    double *ended_totals;           // (capacity)
} Search;

// A block of a Transformer; matrices are packed, norms are (d).
typedef struct {
    const float *attention_norm, *attention_input, *attention_output;  // (3 d, d), (d, d)
    const float *feed_norm, *feed_input, *feed_input_bias;             // (4 d, d), (4 d)
    const float *feed_output, *feed_output_bias;                       // (d, 4 d), (d)
} Block;

// The blocks of a session Transformer. `state_size` is d; the angles have a row per position.
typedef struct {
    int64_t layers, heads, word_size, state_size;
    const float *word_vectors;      // (V, d_e)
    const float *input;             // packed (d, d_e): W_e
    const float *norm;              // (d)
    const float *cosines, *sines;   // (positions, d / heads / 2)
    const Block *blocks;            // (layers)
} Transformer;

// The key-value caches of sessions: (symbols, layers, 2, d) each, keys and values.
typedef struct {
    const float *const *caches;     // (contexts)
    const int64_t *symbols;         // (contexts)
} Sessions;

// Symbols to read, one per row; see `run_symbols`.
typedef struct {
    int64_t rows;
    const int64_t *words, *contexts, *own_first, *own_count;  // (rows)
    float *cache;                   // (own symbols, layers, 2, d)
    float *hidden;                  // (rows, d): the normalised states
    float *previous;                // (rows, d_e): the vectors of the words
} Symbols;

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
    void (*score)(const Decoder *, const Contexts *, const Prediction *, int64_t, const int64_t *,
                  const int64_t *, float *);
    const int32_t *(*followers)(Pairs *, int64_t);
    int64_t (*step)(const Decoder *, const Contexts *, int64_t, const Rules *, Search *);
    void (*ended)(Search *, int64_t);
    void (*run_symbols)(const Transformer *, const Sessions *, const Symbols *);
} Kernels;

#endif
