// What a server holds of the model and how it changes: variables and tables, the optimizer and the
// mode of updates that the chief has chosen, and the steps made. Knows no trainers' connections.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/shard_set.h"
#include "runtime/common/origin.h"
#include "runtime/ps/policy/update_policy.h"
#include "runtime/ps/store/variable_store.h"
#include "runtime/ps/tables/table_store.h"
#include "runtime/transport/messages.h"
#include "runtime/update/update_mode.h"

namespace tfdist::runtime {

using RowSections = std::span<const TableStore::Section>;

class ServedModel {
 public:
  ServedModel();

  // All of it or, throwing Error(kRun), nothing. When there are variables already they must be the
  // same, and keep their optimizer and mode. `trainers`: all of the job.
  void Declare(const Request& create, const std::set<std::string>& trainers);
  // Variables and tables with their first values, or with those of a checkpoint.
  [[nodiscard]] bool created() const { return store_.created() && !withheld_; }
  // Throws Refusal that names the first difference.
  void ExpectSame(const std::vector<TensorSpec>& variables,
                  const std::vector<TablePart>& tables) const;
  // Throws Refusal unless the part is about these variables and not those of an earlier start.
  void ExpectThisCreation(const PartHeader& part) const;
  // The fields of a reply that say what was created.
  void Describe(Reply& reply) const;

  // Applies the gradients of a part, or adds them to the sums of the step to come. Throws
  // Error(kRun) with nothing changed.
  void Push(const PartHeader& part, std::span<const float> gradients, PushSteps& steps);
  // The same for rows that TableStore::Read has found good.
  void PushRows(RowSections rows, PushSteps& steps);
  // Applies what was summed, and counts it as a step.
  void ApplyMeans();
  void CountStep() { SetStep(step_ + 1); }
  // Steps that were made.
  [[nodiscard]] uint64_t step() const { return step_; }
  // That a trainer's next gradients belong to, before a push of it was admitted.
  [[nodiscard]] uint64_t LocalStepOf(const std::string& task) const {
    return policy_ ? policy_->LocalStepOf(task).value_or(step_) : step_;
  }

  // All of it as it is now, and what a shard says of itself; while training goes on. `origins` are
  // those of the variables. Throws Refusal when they are not as many.
  [[nodiscard]] std::vector<TensorSource> Snapshot(const std::vector<Origin>& origins,
                                                   ShardInfo& info);
  // Takes values over from a checkpoint, and with them, unless it is `values_only`, the slots of the
  // optimizer. Not to be used before SetRestored. Throws Error, with nothing taken over, when
  // something is not there, is damaged or belongs to another optimizer.
  void Load(ShardSet& shards, const std::vector<Origin>& origins, bool values_only);
  // The loaded values become the model, at global step `step`.
  void SetRestored(uint64_t step);

  // Gradients are summed until a step is due, instead of applied as they come.
  [[nodiscard]] bool sums() const { return policy_ && policy_->sums(); }
  // Null: asynchronous, or no variables yet.
  [[nodiscard]] UpdatePolicy* policy() const { return policy_.get(); }
  [[nodiscard]] VariableStore& store() { return store_; }
  [[nodiscard]] const VariableStore& store() const { return store_; }
  [[nodiscard]] TableStore& tables() { return tables_; }
  [[nodiscard]] const TableStore& tables() const { return tables_; }

 private:
  void SetStep(uint64_t step);
  void ExpectOriginOfEach(const std::vector<Origin>& origins) const;
  void LoadVariable(ShardSet& shards, size_t variable, const Origin& origin, bool values_only);
  void LoadTable(ShardSet& shards, Table& table, bool values_only);

  VariableStore store_;
  TableStore tables_;
  std::optional<OptimizerSpec> optimizer_;
  UpdateMode mode_;
  // The chief has said that values come from a checkpoint, and they have not come.
  bool withheld_ = false;
  std::unique_ptr<UpdatePolicy> policy_;
  bool sums_rows_ = false;
  uint64_t creation_;  // random: tells these variables from those of an earlier start
  uint64_t step_ = 0;
};

}  // namespace tfdist::runtime
