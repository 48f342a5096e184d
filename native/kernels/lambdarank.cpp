// The gradients of LambdaRank for cases with one true candidate each: what
// src/nextquery/ranking/lambdarank.py computes with NumPy, to the last bit, so compiled without fused
// multiplication and addition. Knows nothing of the decoder's kernels.
#include <math.h>
#include <stdint.h>

namespace {

// Ties go to the earlier candidate.
bool ahead(const double *scores, int64_t one, int64_t other) {
    return scores[one] > scores[other] || (scores[one] == scores[other] && one < other);
}

// The candidates of a case by their scores. The order of the tree before is nearly right already.
void sort(const double *scores, uint16_t *order, int64_t size) {
    for (int64_t place = 1; place < size; ++place) {
        const uint16_t moved = order[place];
        int64_t to = place;
        for (; to > 0 && ahead(scores, moved, order[to - 1]); --to) order[to] = order[to - 1];
        order[to] = moved;
    }
}

struct Table {
    const double *values;
    int64_t bins;
    double reach, factor;

    double of(double difference) const {
        if (difference <= -reach) return values[0];
        if (difference >= reach) return values[bins - 1];
        return values[static_cast<int64_t>((difference + reach) * factor)];
    }
};

}  // namespace

extern "C" {

// `order` (candidates) holds the numbers within each case, in any order, and keeps the sorted ones.
void nextquery_lambdarank(const double *scores, const int64_t *starts, const int64_t *sizes,
                          const int64_t *places, int64_t cases, const double *discounts,
                          const double *table, int64_t bins, double reach, double smallest,
                          int64_t truncation, uint16_t *order, float *first, float *second) {
    const Table logistic{table, bins, reach, static_cast<double>(bins) / (2.0 * reach)};
    for (int64_t number = 0; number < cases; ++number) {
        const int64_t start = starts[number], size = sizes[number], place = places[number];
        const double *own = scores + start;
        uint16_t *sorted = order + start;
        float *lambdas = first + start, *hessians = second + start;
        sort(own, sorted, size);
        int64_t rank = 0;
        while (sorted[rank] != place) ++rank;
        const bool alike = own[sorted[0]] == own[sorted[size - 1]];
        float lambda = 0.0f, hessian = 0.0f;
        double sum = 0.0;
        for (int64_t other = 0; other < size; ++other) {
            const int64_t candidate = sorted[other];
            if (candidate == place) continue;
            double change = fabs(discounts[rank] - discounts[other]);
            if (other >= truncation && rank >= truncation) change = 0.0;
            const double difference = own[place] - own[candidate];
            if (!alike) change /= fabs(difference) + smallest;
            const double chance = logistic.of(difference);
            const double step = chance * change;
            const double curve = (1.0 - chance) * chance * change;
            lambdas[candidate] = static_cast<float>(step);
            hessians[candidate] = static_cast<float>(curve);
            lambda += static_cast<float>(step);
            hessian += static_cast<float>(curve);
            sum += step;
        }
        lambdas[place] = -lambda;
        hessians[place] = hessian;
        sum *= 2.0;
        const double norm = sum > 0.0 ? log2(1.0 + sum) / sum : 1.0;
        for (int64_t candidate = 0; candidate < size; ++candidate) {
            lambdas[candidate] = static_cast<float>(lambdas[candidate] * norm);
            hessians[candidate] = static_cast<float>(hessians[candidate] * norm);
        }
    }
}

}  // extern "C"
