#include "runtime/model/dense_network.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <random>
#include <utility>

#include "runtime/model/dense_layer.h"
#include "runtime/model/softmax.h"

namespace tfdist::runtime {
namespace {

// Positions of a layer's variables in the order of creation.
size_t Kernel(size_t layer) { return 2 * layer; }
size_t Bias(size_t layer) { return 2 * layer + 1; }

// NaN goes through, so that the loss tells of it.
void Relu(std::span<float> values) {
  for (float& value : values) value = value < 0 ? 0 : value;
}

// Nothing flows back through a unit that ReLU cut off.
void ReluBackward(std::span<const float> outputs, std::span<float> errors) {
  for (size_t i = 0; i < outputs.size(); ++i) errors[i] = outputs[i] > 0 ? errors[i] : 0;
}

// Glorot and Bengio (2010): keeps the variance of values and errors alike from layer to layer.
void FillGlorotUniform(Tensor& kernel, size_t inputs, size_t outputs, std::mt19937_64& random) {
  const float limit = std::sqrt(6.0F / static_cast<float>(inputs + outputs));
  std::uniform_real_distribution<float> uniform(-limit, limit);
  for (float& value : kernel) value = uniform(random);
}

}  // namespace

DenseNetwork::DenseNetwork(std::vector<size_t> widths) : widths_(std::move(widths)) {
  assert(widths_.size() >= 2);
  for (size_t layer = 0; layer < layers(); ++layer) {
    const auto inputs = static_cast<uint32_t>(widths_[layer]);
    const auto outputs = static_cast<uint32_t>(widths_[layer + 1]);
    variables_.push_back({fmt::format("dense{}/kernel", layer), {inputs, outputs}});
    variables_.push_back({fmt::format("dense{}/bias", layer), {outputs}});
  }
  outputs_.resize(layers());
  errors_.resize(layers());
}

Tensors DenseNetwork::InitialValues(uint64_t seed) const {
  Tensors values = Zeros(variables_);
  std::mt19937_64 random(seed);
  for (size_t layer = 0; layer < layers(); ++layer) {
    FillGlorotUniform(values[Kernel(layer)], widths_[layer], widths_[layer + 1], random);
  }
  return values;
}

float DenseNetwork::Gradients(const Tensors& values, const Batch& batch, Tensors& gradients) {
  Forward(values, batch);
  const size_t classes = widths_.back();
  const Tensor& probabilities = outputs_.back();
  errors_.back().resize(probabilities.size());
  CrossEntropyGradient(probabilities, batch.labels, classes, errors_.back());
  Backward(values, batch, gradients);
  return static_cast<float>(CrossEntropy(probabilities, batch.labels, classes));
}

Quality DenseNetwork::Evaluate(const Tensors& values, const Batch& batch) {
  Forward(values, batch);
  const size_t classes = widths_.back();
  return {CrossEntropy(outputs_.back(), batch.labels, classes),
          Accuracy(outputs_.back(), batch.labels, classes)};
}

std::span<const float> DenseNetwork::InputOf(size_t layer, const Batch& batch) const {
  return layer == 0 ? batch.pixels : outputs_[layer - 1];
}

void DenseNetwork::Forward(const Tensors& values, const Batch& batch) {
  for (size_t layer = 0; layer < layers(); ++layer) {
    outputs_[layer].resize(batch.size() * widths_[layer + 1]);
    DenseForward({batch.size(), widths_[layer], widths_[layer + 1]}, InputOf(layer, batch),
                 values[Kernel(layer)], values[Bias(layer)], outputs_[layer]);
    if (layer + 1 < layers()) Relu(outputs_[layer]);
  }
  Softmax(outputs_.back(), widths_.back());
}

void DenseNetwork::Backward(const Tensors& values, const Batch& batch, Tensors& gradients) {
  for (size_t layer = layers(); layer-- > 0;) {
    const LayerShape shape{batch.size(), widths_[layer], widths_[layer + 1]};
    DenseGradients(shape, InputOf(layer, batch), errors_[layer], gradients[Kernel(layer)],
                   gradients[Bias(layer)]);
    if (layer == 0) return;
    errors_[layer - 1].resize(outputs_[layer - 1].size());
    DenseBackward(shape, errors_[layer], values[Kernel(layer)], errors_[layer - 1]);
    ReluBackward(outputs_[layer - 1], errors_[layer - 1]);
  }
}

}  // namespace tfdist::runtime
