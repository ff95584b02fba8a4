// The tables of one server: checks what a message asks of their rows, then does it. Knows nothing
// of the network. One thread. Keeps its memory from message to message.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/checkpoint/shard_file.h"
#include "runtime/ps/store/variable_store.h"
#include "runtime/ps/tables/row_means.h"
#include "runtime/ps/tables/table.h"
#include "runtime/transport/messages.h"
#include "runtime/update/row_summer.h"

namespace tfdist::runtime {

class TableStore {
 public:
  TableStore() = default;
  // Makes all rows of all tables. Throws Error(kRun) for a table that there cannot be or is there
  // twice.
  TableStore(const std::vector<TablePart>& parts, const Optimizer& optimizer);

  // Throws Error(kRun) that names the first difference unless these are the tables. First values
  // are not compared: tables that are there keep theirs.
  void ExpectSame(const std::vector<TablePart>& parts) const;

  // What a message says of the rows of one table. Borrows the message.
  struct Section {
    uint32_t table = 0;
    std::span<const uint32_t> pull;
    RowsGradient push;
    bool push_ends = false;  // see RowCounts
  };
  // Takes the payload apart. Throws Error(kRun), for the whole message, unless all tables and rows
  // are there, each table once, gradients are finite and there are as many bytes as belong; and
  // for an answer that would be larger than a message. The result is valid until the next call. Row
  // numbers are copied before they are checked: in shared memory their sender can still change
  // them.
  std::span<const Section> Read(const std::vector<RowCounts>& counts,
                                std::span<const uint32_t> payload);

  // Of what Read has found good. `steps` are those of the push that the message is a part of. Where
  // all rows move with every push, they do so with its last message about the table.
  void Push(std::span<const Section> sections, PushSteps& steps);
  // Adds gradients, of what Read has found good, to the sums of a step to come. A row that several
  // messages of one push name counts as often: clients sum such rows first.
  void Sum(std::span<const Section> sections);
  // Applies the means of what has been added since the last time, as one step of each table that
  // something was added to; where all rows move, if only a gradient of none of the rows here.
  void ApplyMeans();
  // For the schedule of the learning rate.
  void SetGlobalStep(uint64_t step) {
    if (optimizer_) optimizer_->SetGlobalStep(step);
  }
  void Pull(std::span<const Section> sections, float* to) const;

  // All that is kept of the tables, copied: that takes as much memory again, and the time of a copy.
  [[nodiscard]] std::vector<TensorSource> Snapshot();
  // From a checkpoint: the tables, to be filled.
  [[nodiscard]] std::vector<Table>& tables() { return tables_; }
  [[nodiscard]] std::vector<TablePart> parts() const;
  // All rows as they were at first.
  void Renew();

  [[nodiscard]] static size_t FloatsPulled(std::span<const Section> sections);
  // A push changes all rows of a table, and must come to all of its parts.
  [[nodiscard]] bool moves_all_rows() const { return optimizer_ && optimizer_->moves_all_rows(); }

 private:
  [[nodiscard]] bool IsPushed(const Section& section) const;
  void PushToAllRows(const Section& section, const RowsGradient& gradient, PushSteps& steps);
  std::span<const uint32_t> Copied(std::span<const uint32_t> rows);
  OptimizerStep StepOf(uint32_t table, PushSteps& steps);

  std::optional<Optimizer> optimizer_;
  std::vector<Table> tables_;
  std::vector<RowMeans> means_;  // by table; empty where nothing was ever summed
  std::vector<Section> sections_;
  std::vector<uint32_t> rows_;  // that the sections name
  RowSummer summer_;
};

}  // namespace tfdist::runtime
