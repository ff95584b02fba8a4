#include "runtime/model/testing/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

namespace tfdist::runtime::testing {
namespace {

// Shuffled, all `spacing` apart and at least half of that from zero.
Tensor Distinct(size_t count, float spacing, std::mt19937_64& random) {
  Tensor values(count);
  const float middle = std::floor(static_cast<float>(count) / 2) - 0.5F;
  for (size_t i = 0; i < count; ++i) values[i] = (static_cast<float>(i) - middle) * spacing;
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

Buffer BufferOf(Device& device, size_t count) { return {device, count * sizeof(float)}; }

void Put(Device& device, const Tensor& from, Buffer& to) {
  device.Upload(from.data(), from.size() * sizeof(float), to);
}

Tensor Fetch(Device& device, const Buffer& from, size_t count) {
  Tensor values(count);
  device.Wait(device.Download(from, count * sizeof(float), values.data()));
  return values;
}

// The function whose derivatives are checked: the sum of a layer's outputs, each with a weight.
class WeightedSum {
 public:
  WeightedSum(Device& device, Layer& layer, size_t samples)
      : device_(device),
        layer_(layer),
        samples_(samples),
        x_on_device_(BufferOf(device, samples * layer.input().size())),
        y_(BufferOf(device, samples * layer.output().size())) {
    x = Distinct(samples * layer.input().size(), 2 * kMove * 2, random_);
    weights = Distinct(samples * layer.output().size(),
                       2.0F / static_cast<float>(samples * layer.output().size()), random_);
    std::vector<size_t> counts;
    for (const TensorSpec& variable : layer.variables()) {
      counts.insert(counts.end(), 2, ElementCount(variable));
    }
    host_memory.emplace(device, counts);
    for (const TensorSpec& variable : layer.variables()) {
      values.emplace_back(device, host_memory->Take(ElementCount(variable)));
      gradients.emplace_back(device, host_memory->Take(ElementCount(variable)));
      const Tensor initial = Distinct(ElementCount(variable), kMove, random_);
      std::copy(initial.begin(), initial.end(), values.back().host().begin());
    }
  }

  double Value() {
    Forward();
    double sum = 0;
    const Tensor y = Fetch(device_, Output(), weights.size());
    for (size_t i = 0; i < y.size(); ++i) sum += double{y[i]} * weights[i];
    return sum;
  }

  // Also fills `gradients`.
  Tensor GradientByInput() {
    Forward();
    Buffer y_error = BufferOf(device_, weights.size());
    Put(device_, weights, y_error);
    Buffer apart = BufferOf(device_, x.size());
    Buffer& x_error = layer_.in_place() ? y_error : apart;
    layer_.Backward(PassOf(), x_on_device_, y_error, &x_error);
    for (Mirror& gradient : gradients) device_.Wait(gradient.Download(device_));
    return Fetch(device_, x_error, x.size());
  }

  // (value above - value below) / distance, as `element` moves.
  double SlopeBy(float& element) {
    const float before = element;
    element = before + kMove;
    const double above = Value();
    element = before - kMove;
    const double below = Value();
    element = before;
    return (above - below) / (2.0 * kMove);
  }

  Tensor x;
  Tensor weights;
  std::optional<HostMemory> host_memory;
  std::vector<Mirror> values;
  std::vector<Mirror> gradients;

 private:
  // Less than half the distance of two inputs, so that no order among them changes.
  static constexpr float kMove = 1.0F / 256;

  Buffer& Output() { return layer_.in_place() ? x_on_device_ : y_; }
  Pass PassOf() { return {device_, samples_, values, gradients}; }
  void Forward() {
    Put(device_, x, x_on_device_);
    for (Mirror& value : values) value.Upload(device_);
    layer_.Forward(PassOf(), x_on_device_, Output());
  }

  Device& device_;
  Layer& layer_;
  size_t samples_;
  std::mt19937_64 random_{11};
  Buffer x_on_device_;
  Buffer y_;
};

}  // namespace

void ExpectTrueGradients(Device& device, Layer& layer, size_t samples, double tolerance) {
  WeightedSum sum(device, layer, samples);
  const Tensor by_input = sum.GradientByInput();
  for (size_t i = 0; i < sum.x.size(); ++i) {
    EXPECT_NEAR(by_input[i], sum.SlopeBy(sum.x[i]), tolerance) << "input " << i;
  }
  for (size_t variable = 0; variable < sum.values.size(); ++variable) {
    const Tensor gradient(sum.gradients[variable].host().begin(),
                          sum.gradients[variable].host().end());
    for (size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_NEAR(gradient[i], sum.SlopeBy(sum.values[variable].host()[i]), tolerance)
          << ToString(layer.variables()[variable]) << " element " << i;
    }
  }
}

void ExpectTrueGradients(Sequential& model, const Batch& batch, uint64_t seed, double tolerance) {
  const Tensors initial = model.InitialValues(seed);
  for (size_t variable = 0; variable < initial.size(); ++variable) {
    for (size_t i = 0; i < initial[variable].size(); ++i) {
      // No bias exactly at ReLU's corner.
      model.values()[variable][i] = initial[variable][i] + 0.01F;
    }
  }
  model.Gradients(batch);
  constexpr float kMove = 1e-3F;
  size_t checked = 0;
  size_t off = 0;
  for (size_t variable = 0; variable < initial.size(); ++variable) {
    for (size_t i = 0; i < initial[variable].size(); ++i) {
      float& value = model.values()[variable][i];
      const float before = value;
      value = before + kMove;
      const double above = model.Evaluate(batch).loss;
      value = before - kMove;
      const double below = model.Evaluate(batch).loss;
      value = before;
      const double difference = model.gradients()[variable][i] - (above - below) / (2 * kMove);
      ++checked;
      if (!(std::abs(difference) <= tolerance)) ++off;
      ASSERT_LE(off, checked / 100 + 1) << ToString(model.variables()[variable]) << " element " << i
                                        << " is off by " << difference;
    }
  }
}

Batch RandomBatch(size_t samples, size_t pixels, size_t classes) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> pixel(0, 1);
  Batch batch;
  for (size_t i = 0; i < samples * pixels; ++i) batch.pixels.push_back(pixel(random));
  for (size_t i = 0; i < samples; ++i) batch.labels.push_back(static_cast<uint8_t>(i % classes));
  return batch;
}

}  // namespace tfdist::runtime::testing
