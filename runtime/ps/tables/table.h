// One server's rows of one table, updated in place: a table is far too large to keep two versions
// of a part of it. The store's one thread does one message after the other, so an answer holds each
// row as it was before or after another trainer's message, never half of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/ps/tables/float_slab.h"
#include "runtime/table.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {

class Table {
 public:
  // Makes all rows. Throws Error(kRun) when the part is none, or too large for this machine.
  Table(const TablePart& part, const Optimizer& optimizer);

  [[nodiscard]] const TablePart& part() const { return part_; }
  [[nodiscard]] size_t width() const { return part_.width; }
  [[nodiscard]] bool Holds(std::span<const uint32_t> rows) const;

  // All rows (`slot` is nullopt), or a slot of theirs, to be read or, from a checkpoint, written.
  [[nodiscard]] std::span<float> Floats(std::optional<size_t> slot) const {
    return slot ? slots_[*slot].floats() : values_.floats();
  }
  OptimizerState& state() { return state_; }

  // Copies rows, which it holds, to `to`, one after the other.
  void Gather(std::span<const uint32_t> rows, float* to) const;

  // The step of a push, to be taken once however many messages it comes in.
  OptimizerStep NextStep(const Optimizer& optimizer) { return optimizer.NextStep(state_); }
  // Applies the gradients of rows that it holds, each named once where the optimizer wants that.
  void Apply(const Optimizer& optimizer, OptimizerStep step, const RowsGradient& gradient);
  // The same in rounds, for an optimizer that moves all rows.
  void DecayAllRows(const Optimizer& optimizer) { optimizer.DecayAllRows(All()); }
  void GrowRows(const Optimizer& optimizer, const RowsGradient& gradient) {
    optimizer.GrowRows(All(), 0, gradient);
  }
  void MoveAllRows(const Optimizer& optimizer, OptimizerStep step) {
    optimizer.MoveAllRows(step, All());
  }

 private:
  VariableRange All();

  TablePart part_;
  FloatSlab values_;
  std::array<FloatSlab, 2> slots_;  // the optimizer's: as long as the values, or empty
  OptimizerState state_;
};

}  // namespace tfdist::runtime
