// Softmax and cross-entropy over rows of logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tfdist::runtime {

// Turns each row of `classes` logits into probabilities, in place.
void Softmax(std::span<float> logits, size_t classes);

// Mean of -log(probability of the label). A probability that rounded to 0 counts as the smallest
// float.
double CrossEntropy(std::span<const float> probabilities, std::span<const uint8_t> labels,
                    size_t classes);

// Derivative of the mean cross-entropy by the logits: (probability - [class is label]) / samples.
void CrossEntropyGradient(std::span<const float> probabilities, std::span<const uint8_t> labels,
                          size_t classes, std::span<float> gradient);

// Share of the rows whose label has the largest probability.
double Accuracy(std::span<const float> probabilities, std::span<const uint8_t> labels,
                size_t classes);

}  // namespace tfdist::runtime
