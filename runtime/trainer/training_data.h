// Which samples a trainer of a job works with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/device/device.h"
#include "runtime/tf_config.h"
#include "runtime/trainer/training_options.h"

namespace tfdist::runtime {

struct TrainingData {
  Dataset train;
  Dataset test;
  ImageShape image;
  size_t classes = 0;
  size_t trained_count = 0;        // samples of `train` that the job is trained with: the first
  std::vector<size_t> validation;  // the others
  std::vector<size_t> shard;       // this trainer's part of those trained with
};

// Throws Error: kUsage without --data, kFiles for files that are not as they should be, kConfig when
// there are too few samples.
TrainingData LoadTrainingData(const TrainingOptions& options, const TfConfig& config);

// The global step at which training ends: what the options say first.
uint64_t TotalSteps(const TrainingOptions& options, const TfConfig& config,
                    const TrainingData& data);

// All samples, or some, as one batch.
Batch WholeOf(const Dataset& dataset);
Batch PartOf(const Dataset& dataset, const std::vector<size_t>& samples);

}  // namespace tfdist::runtime
