// Pairs of words that were typed side by side: fingerprints, and lists of followers made on demand.
#ifndef NEXTQUERY_PAIRS_H
#define NEXTQUERY_PAIRS_H

#include "vectors.h"

namespace NEXTQUERY_SET {
namespace {

constexpr uint64_t ODD = 0x9E3779B97F4A7C15u;
constexpr uint64_t MIX[2] = {0xBF58476D1CE4E5B9u, 0x94D049BB133111EBu};

// The same numbers as `guard/tables.py` has.
inline uint64_t scramble(uint64_t key) {
    key = (key ^ (key >> 30)) * MIX[0];
    key = (key ^ (key >> 27)) * MIX[1];
    return key ^ (key >> 31);
}
inline uint64_t pair_key(uint64_t first, uint64_t second) {
    return scramble(scramble(first) * ODD + second);
}

inline bool in_bloom(const uint8_t *bits, int64_t bytes, uint64_t key) {
    for (uint64_t salt : MIX) {
        const uint64_t place = scramble(key ^ salt) % ((uint64_t)bytes * 8);
        if (!(bits[place >> 3] >> (place & 7) & 1)) return false;
    }
    return true;
}

// Keys are spread evenly, so that a key is near the index that its size suggests.
inline bool in_common(const Pairs *pairs, uint64_t key) {
    if (pairs->count == 0) return false;
    const uint64_t *common = pairs->common;
    int64_t low = (int64_t)((unsigned __int128)key * (uint64_t)pairs->count >> 64), high = low;
    for (int64_t step = 16; low > 0 && common[low] > key; step *= 2) {
        high = low;
        low = low > step ? low - step : 0;
    }
    for (int64_t step = 16; high < pairs->count && common[high] < key; step *= 2) {
        low = high;
        high = high + step < pairs->count ? high + step : pairs->count;
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (common[middle] < key) low = middle + 1;
        else high = middle;
    }
    return low < pairs->count && common[low] == key;
}

inline bool in_filter(const Pairs *pairs, uint64_t key) {
    const uint64_t one = key & pairs->filter_mask, two = key >> 32 & pairs->filter_mask;
    return (pairs->filter[one >> 6] >> (one & 63) & pairs->filter[two >> 6] >> (two & 63) & 1) != 0;
}

inline bool is_common(const Pairs *pairs, uint64_t key) {
    return in_filter(pairs, key) && in_common(pairs, key);
}

// The number of words that K users typed after the one with this fingerprint, then their ids, ascending.
const int32_t *followers_of(const Pairs *pairs, uint64_t key, Scratch &scratch) {
    constexpr int64_t SOME = 512;
    int32_t *found = scratch.of<int32_t>(pairs->words + 1);
    const uint64_t start = scramble(key) * ODD;
    found[0] = 0;
    uint64_t keys[SOME];
    for (int64_t first = 0; first < pairs->words; first += SOME) {
        const int64_t some = pairs->words - first < SOME ? pairs->words - first : SOME;
        for (int64_t i = 0; i < some; ++i) keys[i] = scramble(start + pairs->keys[first + i]);
        for (int64_t i = 0; i < some; ++i)
            if (is_common(pairs, keys[i])) found[++found[0]] = (int32_t)(first + i);
    }
    return found;
}

// The same for a word of the vocabulary, found once. Several threads may ask at once: the list of
// one of them is kept.
const int32_t *followers(Pairs *pairs, int64_t word) {
    static thread_local Scratch scratch;
    int32_t *known = __atomic_load_n(pairs->followers + word, __ATOMIC_ACQUIRE);
    if (known != nullptr) return known;
    const int32_t *found = followers_of(pairs, pairs->keys[word], scratch);
    const size_t size = (size_t)(found[0] + 1) * sizeof(int32_t);
    int32_t *made = static_cast<int32_t *>(malloc(size));
    if (made == nullptr) abort();
    memcpy(made, found, size);
    if (__atomic_compare_exchange_n(pairs->followers + word, &known, made, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    free(made);
    return known;
}

}  // namespace
}  // namespace NEXTQUERY_SET

#endif
