#include "runtime/model/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tfdist::runtime {

void Softmax(std::span<float> logits, size_t classes) {
  for (size_t begin = 0; begin < logits.size(); begin += classes) {
    const std::span<float> row = logits.subspan(begin, classes);
    // Without the largest taken off first, exp() overflows from 89 on.
    const float largest = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (float& value : row) sum += value = std::exp(value - largest);
    for (float& value : row) value /= sum;
  }
}

double CrossEntropy(std::span<const float> probabilities, std::span<const uint8_t> labels,
                    size_t classes) {
  double sum = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const float probability = probabilities[row * classes + labels[row]];
    sum -= std::log(std::max(probability, std::numeric_limits<float>::min()));
  }
  return sum / static_cast<double>(labels.size());
}

void CrossEntropyGradient(std::span<const float> probabilities, std::span<const uint8_t> labels,
                          size_t classes, std::span<float> gradient) {
  const float scale = 1.0F / static_cast<float>(labels.size());
  for (size_t i = 0; i < probabilities.size(); ++i) gradient[i] = probabilities[i] * scale;
  for (size_t row = 0; row < labels.size(); ++row) gradient[row * classes + labels[row]] -= scale;
}

double Accuracy(std::span<const float> probabilities, std::span<const uint8_t> labels,
                size_t classes) {
  size_t right = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const auto values = probabilities.subspan(row * classes, classes);
    const auto best = std::max_element(values.begin(), values.end()) - values.begin();
    if (best == labels[row]) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

}  // namespace tfdist::runtime
