// How a gradient changes a variable: SGD, momentum, Adagrad and Adam, for dense variables and for
// rows of a table. The arithmetic is that of the TensorFlow kernels behind
// tf.compat.v1.train.*Optimizer, operation by operation, in float32 with subnormal numbers taken as
// zero: bit for bit the same, but for Adagrad, whose reciprocal square root TensorFlow approximates
// to a few ulp and this code does not. The test data in testdata/ are TensorFlow's own. Source:
// tensorflow/core/kernels/training_ops.cc, python/training/*.py.
//
// A push to one variable:
//
//     const OptimizerStep step = optimizer.NextStep(variable.state);  // once per push
//     for (each chunk) optimizer.Apply(step, range of the chunk, gradient of the chunk);
//
// All ranges of one push take the same step, in any order, and give bit for bit what one call for
// the whole variable gives. An Optimizer changes by SetGlobalStep alone; what is passed to a call
// belongs to it until it returns. Nothing here allocates or throws but the constructor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/update/optimizer_spec.h"

namespace tfdist::runtime {

// What an optimizer keeps of one variable besides its slots; belongs into a checkpoint with them.
// Only Adam changes it: the powers of beta1 and beta2 that its next step corrects the bias by.
// TensorFlow has one pair for all variables of an optimizer; it agrees when every push holds every
// variable. Nor does a part of a table take a step of lazy Adam for a push that names none of its
// rows.
struct OptimizerState {
  float beta1_power = 0;
  float beta2_power = 0;
};

// What is the same for all floats of a push. Got from NextStep alone.
class OptimizerStep {
  friend class Optimizer;
  explicit OptimizerStep(float rate) : rate_(rate) {}
  float rate_;
};

// A range of one variable: its values and, for as many slots as the optimizer has, the same range
// of each. The slots that it does not have are left empty.
struct VariableRange {
  std::span<float> values;
  std::array<std::span<float>, 2> slots;
};

// Rows of a table: gradient i, `width` floats long (at least 1), belongs to row rows[i] (counted
// over the table on this server, which holds fewer than 2^32 rows).
struct RowsGradient {
  size_t width = 0;
  std::span<const uint32_t> rows;
  std::span<const float> values;
};

class Optimizer {
 public:
  // Throws Error(kRun) when a number of the spec is out of range.
  explicit Optimizer(const OptimizerSpec& spec);

  [[nodiscard]] const OptimizerSpec& spec() const { return spec_; }
  // Slots are arrays as long as the variable: momentum and Adagrad have one, the accumulator; Adam
  // has two, m and v; SGD has none.
  [[nodiscard]] size_t slot_count() const;
  // Of every float in every slot.
  [[nodiscard]] float initial_slot_value() const;
  // Of a new variable.
  [[nodiscard]] OptimizerState initial_state() const;

  // For the schedule of the learning rate: the next update is number `step`, counted from 0.
  void SetGlobalStep(uint64_t step) noexcept {
    rate_ = RateAt(spec_.schedule, spec_.learning_rate, step);
  }

  // Counts one push to one variable, dense or sparse, however many ranges it is applied in.
  OptimizerStep NextStep(OptimizerState& state) const noexcept;

  // Applies a dense gradient in place. The gradient is as long as the range.
  void Apply(OptimizerStep step, const VariableRange& range,
             std::span<const float> gradient) const noexcept;

  // The same, from `before` to range.values: a version that someone still reads stays as it is. The
  // two do not overlap, and are of one length. Slots change in place.
  void ApplyFrom(OptimizerStep step, std::span<const float> before, const VariableRange& range,
                 std::span<const float> gradient) const noexcept;

  // Applies the gradients of some rows. The range is one of whole rows and begins with row
  // `first_row`; every row of the gradient lies in it. Rows are named once each:
  // sum_repeated_rows() says whether a gradient has to go through RowSummer first.
  //
  // Rows that the gradient does not name: SGD, momentum (no decay of theirs) and Adagrad leave them
  // alone, as TensorFlow does. Adam follows v1's AdamOptimizer (Keras' Adam does the same): m and v
  // of *all* rows decay, and all rows move by what is left of m. So a table gives what the same
  // gradients, made dense, would give (but for rounding). Yet a push costs as much as a dense one,
  // and must be applied to every range of the table, those without a named row too. With `lazy`
  // only the named rows change, as in TF 1's contrib.opt.LazyAdamOptimizer: not the same numbers,
  // but the only affordable Adam for a table much larger than a batch.
  void ApplyRows(OptimizerStep step, const VariableRange& range, uint32_t first_row,
                 const RowsGradient& gradient) const noexcept;

  // A push changes all rows, whichever it names: Adam that is not lazy.
  [[nodiscard]] bool moves_all_rows() const {
    return spec_.kind == OptimizerKind::kAdam && !spec_.lazy;
  }
  // Its ApplyRows in three rounds, for a push whose named rows come in pieces: m and v of all rows
  // decay, once; those of named rows grow, piece by piece, no row in two of them; all rows move,
  // once. Bit for bit what one call gives, as long as no other push comes between. One that does
  // finds what the rounds before it have left, as in TensorFlow, where each round is an operation
  // of its own and none waits for another trainer's.
  void DecayAllRows(const VariableRange& range) const noexcept;
  void GrowRows(const VariableRange& range, uint32_t first_row,
                const RowsGradient& gradient) const noexcept;
  void MoveAllRows(OptimizerStep step, const VariableRange& range) const noexcept;

  // False for SGD alone, which adds each gradient as it comes, as TensorFlow does.
  [[nodiscard]] bool sum_repeated_rows() const { return spec_.kind != OptimizerKind::kSgd; }

 private:
  [[nodiscard]] bool HasSlotsOf(const VariableRange& range) const;

  OptimizerSpec spec_;
  float rate_ = 0;  // at the global step
};

}  // namespace tfdist::runtime
