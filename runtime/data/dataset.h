// Labelled images, and batches of them as floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/common/tensor.h"
#include "runtime/data/idx.h"

namespace tfdist::runtime {

struct Dataset {
  IdxImages images;
  std::vector<uint8_t> labels;  // one per image

  [[nodiscard]] size_t size() const { return labels.size(); }
};

// PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte in `folder`, each with or without ".gz";
// MNIST's prefixes are "train" and "t10k". Throws Error(kFiles), also when the two files differ in
// their count.
Dataset LoadDataset(const std::filesystem::path& folder, const std::string& prefix);

// Highest label plus one.
size_t ClassCount(const Dataset& dataset);

// Some samples, one row each.
struct Batch {
  Tensor pixels;  // size * pixels of an image, 0..1
  std::vector<uint8_t> labels;

  [[nodiscard]] size_t size() const { return labels.size(); }
};

// Fills `batch` with the given samples.
void FillBatch(const Dataset& dataset, std::span<const size_t> samples, Batch& batch);

// Every `trainers`-th sample, from `number` on: the shards of all trainers together are the whole,
// and differ in size by one at most.
std::vector<size_t> ShardOf(size_t sample_count, size_t number, size_t trainers);

// Goes through a shard again and again, each time in a new order that follows from the seed.
class Sampler {
 public:
  // `samples` must not be empty.
  Sampler(std::vector<size_t> samples, uint64_t seed);
  // The next `count` samples; a batch may end one round and begin the next.
  std::vector<size_t> Next(size_t count);

 private:
  std::vector<size_t> samples_;
  std::mt19937_64 random_;
  size_t used_ = 0;
};

}  // namespace tfdist::runtime
