// What a trainer is told of the training itself: data, model, length. Every trainer of a job must
// be told the same.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/model/models.h"
#include "runtime/update/optimizer_spec.h"
#include "runtime/update/update_mode.h"

namespace tfdist::runtime {

// The defaults are TensorFlow's: tf.compat.v1.train.MonitoredTrainingSession, Saver.
struct CheckpointOptions {
  std::filesystem::path folder;        // empty: no checkpoints
  uint64_t steps = 0;                  // global steps between two; 0: by time
  std::chrono::seconds interval{600};  // between two
  size_t keep = 5;                     // the newest; at least 1
  size_t misses = 5;                   // in a row that end the training; 0: none do
  // A checkpoint, or a folder of them, whose values a new model begins with; empty: none.
  std::filesystem::path first_values;
};

// Where the chief's measurements go: about once a second, and at each evaluation.
struct ReportOptions {
  std::filesystem::path metrics;    // a file of JSON lines; empty: none
  std::filesystem::path summaries;  // a folder for TensorBoard's event files; empty: none
  // One short line in the place of the one before; empty: nobody looks.
  std::function<void(const std::string& text)> status;
};

struct TrainingOptions {
  std::string data;  // folder with MNIST's four files
  ModelSpec model;
  size_t batch = 32;
  uint64_t steps = 2000;  // global, counted over all trainers
  // Ends training earlier than `steps`, if that many rounds of all trainers together through the
  // training samples take fewer; 0: does not.
  uint64_t epochs = 0;
  // This share of the training samples, the last ones as they lie in the file, is not trained with:
  // evaluations before the last one go by them instead of the test set. At least 0, below 1.
  double validation_split = 0;
  OptimizerSpec optimizer{.learning_rate = 0.2F};
  UpdateMode update_mode;
  uint64_t seed = 1;
  uint64_t eval_every = 500;  // global steps
  // The chief ends the training when an evaluation before the last one finds this accuracy; above 1:
  // it does not. The other trainers learn of it from the servers, and end too.
  double stop_at_accuracy = 2;
  CheckpointOptions checkpoints;
  ReportOptions reports;
};

}  // namespace tfdist::runtime
