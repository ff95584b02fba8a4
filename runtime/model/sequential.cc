#include "runtime/model/sequential.h"

#include <algorithm>
#include <cassert>
#include <random>
#include <utility>

namespace tfdist::runtime {
namespace {

// Of an evaluation, at a time: bounds the memory for what layers give.
constexpr size_t kSamplesAtATime = 1024;
// Of gradients on their way from the device: so many are there at once. A server's blocks are no larger.
constexpr size_t kFloatsOfAPiece = size_t{1} << 18;

size_t SizeOfFloats(size_t count) { return count * sizeof(float); }

}  // namespace

Sequential::Sequential(Device& device, std::vector<std::unique_ptr<Layer>> layers)
    : device_(device),
      layers_(std::move(layers)),
      outcome_(device, sizeof(Outcome)),
      outcome_on_host_(Buffer::ForHost(device, sizeof(Outcome))) {
  assert(!layers_.empty() && !layers_.front()->in_place());
  for (const auto& layer : layers_) {
    of_layer_.push_back({variables_.size(), layer->variables().size()});
    variables_.insert(variables_.end(), layer->variables().begin(), layer->variables().end());
  }
  std::vector<size_t> counts;
  for (const TensorSpec& variable : variables_)
    counts.insert(counts.end(), 2, ElementCount(variable));
  taken_.resize(variables_.size());
  host_memory_ = std::make_unique<HostMemory>(device, counts);
  for (const TensorSpec& variable : variables_) {
    values_.emplace_back(device, host_memory_->Take(ElementCount(variable)));
    gradients_.emplace_back(device, host_memory_->Take(ElementCount(variable)));
    values_on_host_.push_back(values_.back().host());
    gradients_on_host_.emplace_back(gradients_.back().host());
  }
}

Tensors Sequential::InitialValues(uint64_t seed) const {
  Tensors values = Zeros(variables_);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->FillInitialValues(std::span(values).subspan(of_layer_[i].first, of_layer_[i].count),
                                  random);
  }
  return values;
}

void Sequential::Forward(const Batch& batch, const LayerHook& need_values) {
  samples_ = batch.size();
  arriving_.clear();  // of a Backward that was broken off
  Reserve(samples_);
  if (std::exchange(samples_next_.prepared, nullptr) == batch.pixels.data()) {
    std::swap(samples_now_, samples_next_);
  } else {
    UploadSamples(batch, 0, samples_, samples_now_);
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (of_layer_[i].count > 0) need_values(of_layer_[i]);
    UploadOtherValues(i);
    layers_[i]->Forward(PassOf(i, samples_), InputOf(i), *output_of_[i]);
  }
  loss_mark_ = StartLoss(samples_);
}

Quality Sequential::Evaluate(const Batch& batch) {
  Outcome sum;
  for (size_t i = 0; i < layers_.size(); ++i) UploadValues(i);
  for (size_t first = 0; first < batch.size(); first += kSamplesAtATime) {
    const size_t samples = std::min(kSamplesAtATime, batch.size() - first);
    Reserve(samples);
    UploadSamples(batch, first, samples, samples_now_);
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers_[i]->Forward(PassOf(i, samples), InputOf(i), *output_of_[i]);
    }
    device_.Wait(StartLoss(samples));
    sum.loss += outcome_on_host_.As<Outcome>()->loss;
    sum.right += outcome_on_host_.As<Outcome>()->right;
  }
  const auto size = static_cast<double>(batch.size());
  return {sum.loss / size, static_cast<double>(sum.right) / size};
}

Pass Sequential::PassOf(size_t layer, size_t samples) {
  const auto [first, count] = of_layer_[layer];
  return {device_, samples, std::span<const Mirror>(values_).subspan(first, count),
          std::span(gradients_).subspan(first, count)};
}

const Buffer& Sequential::InputOf(size_t layer) const {
  return layer == 0 ? samples_now_.pixels : *output_of_[layer - 1];
}

void Sequential::Reserve(size_t samples) {
  if (samples <= reserved_samples_) return;
  for (Samples* const of : {&samples_now_, &samples_next_}) {
    *of = {Buffer(device_, SizeOfFloats(samples * layers_.front()->input().size())),
           Buffer(device_, samples)};
  }
  outputs_.clear();
  outputs_.resize(layers_.size());
  output_of_.clear();
  size_t largest = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const size_t bytes = SizeOfFloats(samples * layers_[i]->output().size());
    if (!layers_[i]->in_place()) outputs_[i] = Buffer(device_, bytes);
    output_of_.push_back(layers_[i]->in_place() ? output_of_[i - 1] : &outputs_[i]);
    if (i + 1 < layers_.size()) largest = std::max(largest, bytes);
  }
  for (Buffer& errors : errors_) errors = Buffer(device_, largest);
  reserved_samples_ = samples;
}

void Sequential::Prepare(const Batch& batch) {
  if (batch.size() > reserved_samples_) return;
  UploadSamples(batch, 0, batch.size(), samples_next_);
  samples_next_.prepared = batch.pixels.data();
}

void Sequential::UploadSamples(const Batch& batch, size_t first, size_t samples, Samples& to) {
  const size_t pixels = layers_.front()->input().size();
  assert(batch.pixels.size() == batch.size() * pixels);
  device_.Upload(batch.pixels.data() + first * pixels, SizeOfFloats(samples * pixels), to.pixels);
  device_.Upload(batch.labels.data() + first, samples, to.labels);
}

void Sequential::UploadValues(size_t layer) {
  const auto [first, count] = of_layer_[layer];
  for (size_t i = first; i < first + count; ++i) values_[i].Upload(device_);
}

void Sequential::TakeValues(size_t variable, std::span<const float> values) {
  const auto first = static_cast<size_t>(values.data() - values_[variable].host().data());
  values_[variable].UploadPart(device_, first, values.size());
  taken_[variable] += values.size();
}

void Sequential::UploadOtherValues(size_t layer) {
  const auto [first, count] = of_layer_[layer];
  for (size_t i = first; i < first + count; ++i) {
    if (std::exchange(taken_[i], 0) < values_[i].host().size()) values_[i].Upload(device_);
  }
}

// From the logits, which become their own derivatives.
Device::Mark Sequential::StartLoss(size_t samples) {
  device_.SoftmaxCrossEntropy(samples, layers_.back()->output().size(), samples_now_.labels,
                              *output_of_.back(), outcome_);
  return device_.Download(outcome_, sizeof(Outcome), outcome_on_host_.As<void>());
}

float Sequential::Backward(const std::function<void(float loss)>& have_loss,
                           const GradientHook& have_gradients) {
  float loss = 0;
  bool told = false;
  // No gradient arrives before the outcome, which the device has given first.
  const auto tell = [&](bool wait) {
    if (arriving_.empty() || !(wait || device_.HasPassed(arriving_.front().mark))) return;
    if (!std::exchange(told, true)) {
      device_.Wait(loss_mark_);
      loss =
          static_cast<float>(outcome_on_host_.As<Outcome>()->loss / static_cast<double>(samples_));
      have_loss(loss);
    }
    TellOfArrived(have_gradients, wait);
  };
  Buffer* y_error = output_of_.back();
  size_t free_errors = 0;
  for (size_t i = layers_.size(); i-- > 0;) {
    Buffer* x_error = i == 0 ? nullptr : &errors_[free_errors];
    if (layers_[i]->in_place()) {
      x_error = y_error;
    } else {
      free_errors = 1 - free_errors;
    }
    layers_[i]->Backward(PassOf(i, samples_), InputOf(i), *y_error, x_error);
    y_error = x_error;
    StartDownload(of_layer_[i]);
    tell(false);
  }
  tell(true);
  return loss;
}

void Sequential::StartDownload(LayerVariables variables) {
  for (size_t i = variables.first; i < variables.first + variables.count; ++i) {
    const size_t floats = gradients_on_host_[i].size();
    const size_t piece = device_.uses_host_memory() ? floats : kFloatsOfAPiece;
    for (size_t first = 0; first < floats; first += piece) {
      const size_t count = std::min(piece, floats - first);
      arriving_.push_back({gradients_[i].DownloadPart(device_, first, count), i, first + count});
    }
  }
}

void Sequential::TellOfArrived(const GradientHook& have_gradients, bool wait) {
  while (!arriving_.empty() && (wait || device_.HasPassed(arriving_.front().mark))) {
    const Arriving arrived = arriving_.front();
    device_.Wait(arrived.mark);
    arriving_.pop_front();
    have_gradients(arrived.variable, arrived.floats);
  }
}

}  // namespace tfdist::runtime
