// Which optimizer changes a variable, and its numbers: a plain value for command lines, messages
// and checkpoints. Names, meanings and defaults are those of tf.compat.v1.train.*Optimizer.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "runtime/update/learning_rate_schedule.h"

namespace tfdist::runtime {

enum class OptimizerKind { kSgd, kMomentum, kAdagrad, kAdam };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kSgd;
  float learning_rate = 0;  // above 0; has no default, as in TensorFlow
  // kMomentum
  float momentum = 0.9F;  // at least 0, below 1
  bool use_nesterov = false;
  // kAdagrad
  float initial_accumulator_value = 0.1F;  // above 0
  // kAdam
  float beta1 = 0.9F;     // at least 0, below 1
  float beta2 = 0.999F;   // the same
  float epsilon = 1e-8F;  // above 0
  // Rows of a table that a push does not name stay as they are. Without it every push changes, and
  // costs as much as, all of the table, as with TensorFlow's AdamOptimizer. See Optimizer.
  bool lazy = false;
  // Of the learning rate, by global step.
  LearningRateSchedule schedule = {};

  bool operator==(const OptimizerSpec&) const = default;
};

// Throws Error in the given phase, naming the field, unless the numbers that this kind uses are in
// range: "adam: beta1 is 1.5, must be at least 0 and below 1".
void Check(const OptimizerSpec& spec, Phase phase);

// "adam:learning_rate=0.001,beta1=0.8": a kind (sgd, momentum, adagrad, adam), then fields of that
// kind; those left out have their defaults. Behind a space there may be a schedule, as ParseSchedule
// reads it. Throws Error(kUsage) for anything else.
OptimizerSpec ParseOptimizer(std::string_view text);

// All fields of its kind, and the schedule, unless that is constant; ParseOptimizer gives the same spec back.
std::string ToString(const OptimizerSpec& spec);

}  // namespace tfdist::runtime
