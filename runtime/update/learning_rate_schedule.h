// How the learning rate changes with the global step. Names, meanings and defaults are TensorFlow's:
// tf.compat.v1.train.exponential_decay and piecewise_constant; tf.keras.optimizers.schedules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tfdist::runtime {

enum class ScheduleKind { kConstant, kExponential, kPiecewise, kCosine };

struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  uint64_t decay_steps = 0;  // kExponential, kCosine: above 0
  // kExponential: rate * decay_rate ^ (step / decay_steps)
  float decay_rate = 0;    // above 0
  bool staircase = false;  // the exponent is rounded down
  // kPiecewise: values[i] up to and including step boundaries[i], the last value from then on. They
  // take the place of the optimizer's learning rate.
  std::vector<uint64_t> boundaries = {};  // rising
  std::vector<float> values = {};         // one more, each above 0
  // kCosine: rate * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha)
  float alpha = 0;  // at least 0, below 1
  // Of every kind. The rate rises in a line from `warmup_from` times what it is to become, for so
  // many steps; the schedule counts from their end, as CosineDecay does.
  uint64_t warmup_steps = 0;
  float warmup_from = 0;  // at least 0, below 1

  bool operator==(const LearningRateSchedule&) const = default;
};

// `rate` is the optimizer's own.
float RateAt(const LearningRateSchedule& schedule, float rate, uint64_t step);

// "exponential:decay_steps=1000,decay_rate=0.96,staircase=true",
// "piecewise:boundaries=1000/2000,values=0.1/0.01/0.001",
// "cosine:decay_steps=1000,alpha=0.1,warmup_steps=100", "constant:warmup_steps=100". Throws
// Error(kUsage), naming the field, for anything else.
LearningRateSchedule ParseSchedule(std::string_view text);
// ParseSchedule gives the same schedule back.
std::string ToString(const LearningRateSchedule& schedule);

// Throws Error in the given phase, naming the field, unless the numbers are in range.
void Check(const LearningRateSchedule& schedule, Phase phase);

}  // namespace tfdist::runtime
