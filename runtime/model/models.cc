#include "runtime/model/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "runtime/model/conv2d.h"
#include "runtime/model/dense.h"
#include "runtime/model/max_pool.h"
#include "runtime/model/relu.h"

namespace tfdist::runtime {
namespace {

constexpr size_t kPool = 2;

// Layers, each on the output of the one before.
class Stack {
 public:
  explicit Stack(const ImageShape& image) : top_(image) {}

  void AddDense(size_t outputs) {
    Add(std::make_unique<Dense>(fmt::format("dense{}", dense_++), top_, outputs));
  }
  void AddConvolution(size_t filters) {
    Add(std::make_unique<Conv2d>(fmt::format("conv{}", convolutions_++), top_,
                                 Conv2dSpec{.filters = filters}));
  }
  void AddRelu() { Add(std::make_unique<Relu>(top_)); }
  void AddPool() { Add(std::make_unique<MaxPool>(top_, kPool, kPool, Padding::kValid)); }

  [[nodiscard]] const ImageShape& top() const { return top_; }
  std::vector<std::unique_ptr<Layer>> Take() { return std::move(layers_); }

 private:
  void Add(std::unique_ptr<Layer> layer) {
    top_ = layer->output();
    layers_.push_back(std::move(layer));
  }

  std::vector<std::unique_ptr<Layer>> layers_;
  ImageShape top_;
  size_t dense_ = 0;
  size_t convolutions_ = 0;
};

void AddConvolutions(const ModelSpec& spec, const ImageShape& image, Stack& stack) {
  for (const size_t filters : spec.filters) {
    if (stack.top().height < kPool || stack.top().width < kPool) {
      throw Error(Phase::kUsage,
                  fmt::format("cnn: images of {}x{} pixels are too small for {} pools",
                              image.height, image.width, spec.filters.size()),
                  "fewer filters, or --model mlp");
    }
    stack.AddConvolution(filters);
    stack.AddRelu();
    stack.AddPool();
  }
}

std::vector<size_t> HiddenOf(const ModelSpec& spec) {
  return spec.kind == "softmax" ? std::vector<size_t>() : spec.hidden;
}

}  // namespace

Sequential MakeModel(const ModelSpec& spec, const ImageShape& image, size_t classes,
                     Device& device) {
  if (spec.kind != "softmax" && spec.kind != "mlp" && spec.kind != "cnn") {
    throw Error(Phase::kUsage,
                fmt::format("model: no \"{}\", there are softmax, mlp, cnn", spec.kind));
  }
  Stack stack(image);
  if (spec.kind == "cnn") AddConvolutions(spec, image, stack);
  for (const size_t width : HiddenOf(spec)) {
    stack.AddDense(width);
    stack.AddRelu();
  }
  stack.AddDense(classes);
  return {device, stack.Take()};
}

std::string ToString(const ModelSpec& spec, const ImageShape& image, size_t classes) {
  std::vector<size_t> widths = HiddenOf(spec);
  widths.push_back(classes);
  std::string input = fmt::format("{}", image.size());
  if (spec.kind == "cnn") {
    widths.insert(widths.begin(), spec.filters.begin(), spec.filters.end());
    input = fmt::format("{}x{}", image.height, image.width);
  }
  return fmt::format("{} {}-{}", spec.kind, input, fmt::join(widths, "-"));
}

}  // namespace tfdist::runtime
