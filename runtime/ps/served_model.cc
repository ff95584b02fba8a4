#include "runtime/ps/served_model.h"

#include <sodium.h>

#include <utility>

#include "runtime/transport/refusal.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {
namespace {

uint64_t RandomCreation() {
  uint64_t creation = 0;
  randombytes_buf(&creation, sizeof creation);
  return creation | 1;  // 0 is none
}

}  // namespace

ServedModel::ServedModel() : creation_(RandomCreation()) {}

void ServedModel::Declare(const Request& create, const std::set<std::string>& trainers) {
  const UpdateMode mode = Completed(ParseUpdateMode(create.update_mode), trainers.size());
  const Optimizer optimizer(ParseOptimizer(create.optimizer));
  if (store_.declared()) {
    store_.Declare(create.variables, optimizer);
    tables_.ExpectSame(create.tables);
    return;
  }
  TableStore tables(create.tables, optimizer);
  std::unique_ptr<UpdatePolicy> policy = UpdatePolicy::Make(mode, trainers);
  store_.Declare(create.variables, optimizer);
  tables_ = std::move(tables);
  mode_ = mode;
  policy_ = std::move(policy);
  // A mean counts the pushes that name a row, not the messages.
  sums_rows_ = optimizer.sum_repeated_rows() || sums();
}

void ServedModel::ExpectSame(const std::vector<TensorSpec>& variables,
                             const std::vector<TablePart>& tables) const {
  store_.ExpectSame(variables);
  tables_.ExpectSame(tables);
}

void ServedModel::ExpectThisCreation(const PartHeader& part) const {
  if (store_.declared() && part.creation == creation_) return;
  throw Refusal(RefusalKind::kVariablesLost, "the variables are lost: this server was restarted",
                kRestartJob);
}

void ServedModel::Describe(Reply& reply) const {
  reply.creation = creation_;
  reply.update_mode = ToString(mode_);
  reply.sums_rows = sums_rows_;
  reply.moves_all_rows = tables_.moves_all_rows();
}

void ServedModel::Push(const PartHeader& part, std::span<const float> gradients, PushSteps& steps) {
  if (sums()) {
    store_.Sum(part.block, part.push, gradients);
  } else {
    store_.Push(part.block, part.push, gradients, steps);
  }
}

void ServedModel::PushRows(RowSections rows, PushSteps& steps) {
  if (sums()) {
    tables_.Sum(rows);
  } else {
    tables_.Push(rows, steps);
  }
}

void ServedModel::ApplyMeans() {
  store_.ApplyMeans();
  tables_.ApplyMeans();
  CountStep();
}

}  // namespace tfdist::runtime
