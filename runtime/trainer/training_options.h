// What a trainer is told of the training itself: data, model, length. Every trainer of a job must
// be told the same.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/update/optimizer_spec.h"
#include "runtime/update/update_mode.h"

namespace tfdist::runtime {

// The defaults are TensorFlow's: tf.compat.v1.train.MonitoredTrainingSession, Saver.
struct CheckpointOptions {
  std::filesystem::path folder;        // empty: no checkpoints
  uint64_t steps = 0;                  // global steps between two; 0: by time
  std::chrono::seconds interval{600};  // between two
  size_t keep = 5;                     // the newest; at least 1
  // A checkpoint, or a folder of them, whose values a new model begins with; empty: none.
  std::filesystem::path first_values;
};

struct TrainingOptions {
  std::string data;           // folder with MNIST's four files
  std::string model = "mlp";  // or "softmax": no hidden layer
  std::vector<size_t> hidden = {128};
  size_t batch = 32;
  uint64_t steps = 2000;  // global, counted over all trainers
  OptimizerSpec optimizer{.learning_rate = 0.2F};
  UpdateMode update_mode;
  uint64_t seed = 1;
  uint64_t eval_every = 500;  // global steps
  CheckpointOptions checkpoints;
};

}  // namespace tfdist::runtime
