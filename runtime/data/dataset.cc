#include "runtime/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

constexpr float kMaxPixel = 255.0F;

std::filesystem::path FindFile(const std::filesystem::path& folder, const std::string& name) {
  for (const std::string& candidate : {name + ".gz", name}) {
    std::error_code ignored;  // what cannot be looked at is as good as missing
    if (std::filesystem::exists(folder / candidate, ignored)) return folder / candidate;
  }
  throw Error(Phase::kFiles,
              fmt::format("{}: neither {}.gz nor {} is there", folder.string(), name, name),
              "--data names a folder with MNIST's four IDX files");
}

}  // namespace

Dataset LoadDataset(const std::filesystem::path& folder, const std::string& prefix) {
  Dataset dataset;
  dataset.images = ReadIdxImages(FindFile(folder, prefix + "-images-idx3-ubyte"));
  dataset.labels = ReadIdxLabels(FindFile(folder, prefix + "-labels-idx1-ubyte"));
  if (dataset.images.count != dataset.labels.size()) {
    throw Error(Phase::kFiles, fmt::format("{}: {} has {} images, but {} labels", folder.string(),
                                           prefix, dataset.images.count, dataset.labels.size()));
  }
  return dataset;
}

size_t ClassCount(const Dataset& dataset) {
  return size_t{*std::max_element(dataset.labels.begin(), dataset.labels.end())} + 1;
}

void FillBatch(const Dataset& dataset, std::span<const size_t> samples, Batch& batch) {
  const size_t pixels = dataset.images.pixels();
  batch.pixels.resize(samples.size() * pixels);
  batch.labels.resize(samples.size());
  for (size_t row = 0; row < samples.size(); ++row) {
    const uint8_t* from = dataset.images.bytes.data() + samples[row] * pixels;
    float* to = batch.pixels.data() + row * pixels;
    for (size_t i = 0; i < pixels; ++i) to[i] = static_cast<float>(from[i]) / kMaxPixel;
    batch.labels[row] = dataset.labels[samples[row]];
  }
}

std::vector<size_t> ShardOf(size_t sample_count, size_t number, size_t trainers) {
  std::vector<size_t> samples;
  for (size_t i = number; i < sample_count; i += trainers) samples.push_back(i);
  return samples;
}

Sampler::Sampler(std::vector<size_t> samples, uint64_t seed)
    : samples_(std::move(samples)), random_(seed), used_(samples_.size()) {
  assert(!samples_.empty());
}

std::vector<size_t> Sampler::Next(size_t count) {
  std::vector<size_t> next;
  next.reserve(count);
  while (next.size() < count) {
    if (used_ == samples_.size()) {
      std::shuffle(samples_.begin(), samples_.end(), random_);
      used_ = 0;
    }
    next.push_back(samples_[used_++]);
  }
  return next;
}

}  // namespace tfdist::runtime
