#include "runtime/trainer/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "runtime/common/cluster.h"

namespace tfdist::runtime {
namespace {

ImageShape ShapeOf(const Dataset& dataset) {
  return {dataset.images.rows, dataset.images.columns, 1};
}

std::vector<size_t> OwnShard(const TfConfig& config, size_t sample_count) {
  const size_t trainers = TrainersOf(config.cluster).size();
  std::vector<size_t> shard =
      ShardOf(sample_count, TrainerNumber(config.cluster, config.task), trainers);
  if (shard.empty()) {
    throw Error(Phase::kConfig,
                fmt::format("{} samples are too few for {} trainers", sample_count, trainers));
  }
  return shard;
}

// As Keras' validation_split: the last samples, before any shuffling.
size_t TrainedCount(size_t samples, double validation_split) {
  const auto trained =
      static_cast<size_t>(std::floor(static_cast<double>(samples) * (1 - validation_split)));
  if (validation_split > 0 && trained == samples) {
    throw Error(Phase::kConfig, fmt::format("{} samples are too few for --validation-split {}",
                                            samples, validation_split));
  }
  return trained;
}

// Of all trainers together.
size_t SamplesPerStep(const TrainingOptions& options, size_t trainers) {
  const UpdateMode mode = Completed(options.update_mode, trainers);
  return options.batch * (mode.kind == UpdateKind::kSync ? mode.replicas : 1);
}

}  // namespace

TrainingData LoadTrainingData(const TrainingOptions& options, const TfConfig& config) {
  const std::string& folder = options.data;
  if (folder.empty()) throw Error(Phase::kUsage, "a trainer needs --data DIR");
  TrainingData data;
  data.train = LoadDataset(folder, "train");
  data.test = LoadDataset(folder, "t10k");
  data.image = ShapeOf(data.train);
  if (data.image != ShapeOf(data.test)) {
    throw Error(Phase::kFiles, folder + ": training and test images differ in size");
  }
  data.classes = std::max(ClassCount(data.train), ClassCount(data.test));
  data.trained_count = TrainedCount(data.train.size(), options.validation_split);
  data.validation.resize(data.train.size() - data.trained_count);
  std::iota(data.validation.begin(), data.validation.end(), data.trained_count);
  data.shard = OwnShard(config, data.trained_count);
  return data;
}

uint64_t TotalSteps(const TrainingOptions& options, const TfConfig& config,
                    const TrainingData& data) {
  if (options.epochs == 0) return options.steps;
  const size_t per_step = SamplesPerStep(options, TrainersOf(config.cluster).size());
  const double steps =
      std::ceil(static_cast<double>(options.epochs) * static_cast<double>(data.trained_count) /
                static_cast<double>(per_step));
  // A double that is too large for the cast is larger than any number of steps, too.
  return steps < static_cast<double>(options.steps) ? static_cast<uint64_t>(steps) : options.steps;
}

Batch WholeOf(const Dataset& dataset) {
  std::vector<size_t> samples(dataset.size());
  std::iota(samples.begin(), samples.end(), 0);
  return PartOf(dataset, samples);
}

Batch PartOf(const Dataset& dataset, const std::vector<size_t>& samples) {
  Batch batch;
  FillBatch(dataset, samples, batch);
  return batch;
}

}  // namespace tfdist::runtime
