// A classifier: layers in a row, then softmax with cross-entropy. It computes on a device, and keeps
// its values and gradients where the host sees them, too.
//
//     Sequential model = MakeModel(spec, image, classes, device);   // models.h
//     client.Pull(model.values()...);
//     const float loss = model.Gradients(batch);
//     client.PushPull(model.gradients()..., model.values()...);
//
// or, to exchange some variables while others are computed with: Forward and Backward with hooks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/common/tensor.h"
#include "runtime/data/dataset.h"
#include "runtime/device/device.h"
#include "runtime/device/host_memory.h"
#include "runtime/device/mirror.h"
#include "runtime/model/layer.h"

namespace tfdist::runtime {

struct Quality {
  double loss = 0;  // mean cross-entropy
  double accuracy = 0;
};

// Some variables side by side in the order of creation: those of one layer.
struct LayerVariables {
  size_t first = 0;
  size_t count = 0;
};

// What a caller may do while a step is computed, on its own thread; once for each layer that has
// variables.
using LayerHook = std::function<void(LayerVariables)>;
// The first `floats` of a variable's gradient are there. The last time of a variable: all of them.
using GradientHook = std::function<void(size_t variable, size_t floats)>;

// One thread at a time. The device must outlive it.
class Sequential {
 public:
  // At least one layer; the output of each is the input of the next, that of the last are the
  // logits of as many classes.
  Sequential(Device& device, std::vector<std::unique_ptr<Layer>> layers);

  // In the order of creation, which decides on placement.
  [[nodiscard]] const std::vector<TensorSpec>& variables() const { return variables_; }
  // Values to begin with: the same for the same seed, on every device.
  [[nodiscard]] Tensors InitialValues(uint64_t seed) const;

  // On the host, one for each variable: where the caller puts values, and finds gradients. Both stay
  // where they are as long as the model. Zeros at first.
  [[nodiscard]] const MutableTensorViews& values() const { return values_on_host_; }
  [[nodiscard]] const TensorViews& gradients() const { return gradients_on_host_; }

  // Where all of them lie.
  [[nodiscard]] const std::shared_ptr<const SharedMemory>& memory() const {
    return host_memory_->memory();
  }

  // The batch of the next Forward goes to the device beside what is computed now; it is to stay as it
  // is until then. Only saves time. To be called within Backward, where the host waits for the device.
  void Prepare(const Batch& batch);
  // Some of values() have come, as the next Forward computes with them: they go to the device at
  // once. Forward copies those of which it was not told.
  void TakeValues(size_t variable, std::span<const float> values);

  // Mean cross-entropy of the batch, with values() as they are then; gradients() become its
  // derivatives.
  float Gradients(const Batch& batch) {
    Forward(batch, [](LayerVariables) {});
    return Backward([](float) {}, [](size_t, size_t) {});
  }
  // The same in two. Values of a layer's variables are needed when `need_values` is called, first
  // layer first: it returns when values() has them.
  void Forward(const Batch& batch, const LayerHook& need_values);
  // Of the last Forward, since which values() may have changed. `have_loss` comes first.
  // `have_gradients` says what gradients() has, last layer first, while the rest is computed or on its
  // way. From then on these values() may be changed.
  float Backward(const std::function<void(float loss)>& have_loss,
                 const GradientHook& have_gradients);
  // Over the batch, which may be large, without gradients. Not between Forward and Backward.
  Quality Evaluate(const Batch& batch);

 private:
  struct Arriving {  // gradients on their way to the host
    Device::Mark mark;
    size_t variable;
    size_t floats;  // of it, with those that come before
  };
  [[nodiscard]] Pass PassOf(size_t layer, size_t samples);
  [[nodiscard]] const Buffer& InputOf(size_t layer) const;
  void Reserve(size_t samples);
  // Of the batch at hand, or of the next one.
  struct Samples {
    Buffer pixels;
    Buffer labels;
    const float* prepared = nullptr;  // where the batch lies that Prepare has put there
  };
  void UploadSamples(const Batch& batch, size_t first, size_t samples, Samples& to);
  void UploadValues(size_t layer);
  void UploadOtherValues(size_t layer);
  [[nodiscard]] Device::Mark StartLoss(size_t samples);
  void StartDownload(LayerVariables variables);
  void TellOfArrived(const GradientHook& have_gradients, bool wait);

  Device& device_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<LayerVariables> of_layer_;  // one for each layer
  std::vector<TensorSpec> variables_;
  std::unique_ptr<HostMemory> host_memory_;
  std::vector<Mirror> values_;
  std::vector<size_t> taken_;  // floats of each, since Forward
  std::vector<Mirror> gradients_;
  MutableTensorViews values_on_host_;
  TensorViews gradients_on_host_;
  std::deque<Arriving> arriving_;
  size_t samples_ = 0;  // of the last Forward
  Device::Mark loss_mark_ = 0;

  // For the batch at hand; grown to the largest.
  size_t reserved_samples_ = 0;
  Samples samples_now_;
  Samples samples_next_;
  std::vector<Buffer> outputs_;     // of each layer; of one in place: empty
  std::vector<Buffer*> output_of_;  // of each layer; of one in place: that of the layer before
  Buffer errors_[2];                // derivatives by the input and the output of a layer, in turns
  Buffer outcome_;
  Buffer outcome_on_host_;
};

}  // namespace tfdist::runtime
