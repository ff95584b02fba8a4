#include "runtime/ps/service/served_model.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "runtime/ps/policy/make_update_policy.h"
#include "runtime/ps/store/slot_names.h"
#include "runtime/transport/refusal.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {
namespace {

uint64_t RandomCreation() {
  uint64_t creation = 0;
  randombytes_buf(&creation, sizeof creation);
  return creation | 1;  // 0 is none
}

size_t SlotCount(const OptimizerSpec& spec) { return Optimizer(spec).slot_count(); }

// Slots of one optimizer mean nothing to another.
void ExpectSlotsOf(const OptimizerSpec& here, const ShardInfo& shard) {
  const OptimizerSpec there = ParseOptimizer(shard.optimizer);
  if (there.kind == here.kind) return;
  throw Refusal(
      RefusalKind::kMismatch,
      "the checkpoint is one of " + shard.optimizer + ", the optimizer here is " + ToString(here),
      "the same --optimizer, or --from-checkpoint, which takes the values alone");
}

template <typename ReadPowers>
OptimizerState StateFrom(ReadPowers read) {
  std::array<float, 2> powers{};
  read(std::span<float>(powers));
  return {powers[0], powers[1]};
}

}  // namespace

ServedModel::ServedModel() : creation_(RandomCreation()) {}

void ServedModel::Declare(const Request& create, const std::set<std::string>& trainers) {
  const UpdateMode mode = Completed(ParseUpdateMode(create.update_mode), trainers.size());
  const Optimizer optimizer(ParseOptimizer(create.optimizer));
  if (store_.declared()) {
    store_.Declare(create.variables, optimizer);
    tables_.ExpectSame(create.tables);
    if (!created()) withheld_ = create.restores;
    return;
  }
  TableStore tables(create.tables, optimizer);
  std::unique_ptr<UpdatePolicy> policy = MakeUpdatePolicy(mode, trainers);
  store_.Declare(create.variables, optimizer);
  tables_ = std::move(tables);
  optimizer_ = optimizer.spec();
  mode_ = mode;
  withheld_ = create.restores;
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

void ServedModel::SetStep(uint64_t step) {
  step_ = step;
  store_.SetGlobalStep(step);
  tables_.SetGlobalStep(step);
}

void ServedModel::ApplyMeans() {
  store_.ApplyMeans();
  tables_.ApplyMeans();
  CountStep();
}

void ServedModel::ExpectOriginOfEach(const std::vector<Origin>& origins) const {
  if (origins.size() == store_.variables().size()) return;
  throw Error(Phase::kRun, "message: not one origin for each variable");
}

std::vector<TensorSource> ServedModel::Snapshot(const std::vector<Origin>& origins,
                                                ShardInfo& info) {
  ExpectOriginOfEach(origins);
  info.step = step_;
  info.optimizer = ToString(*optimizer_);
  info.update_mode = ToString(mode_);
  for (size_t i = 0; i < origins.size(); ++i) {
    info.variables.push_back({store_.variables()[i], origins[i]});
  }
  info.tables = tables_.parts();
  std::vector<TensorSource> tensors = store_.Snapshot();
  std::ranges::move(tables_.Snapshot(), std::back_inserter(tensors));
  return tensors;
}

void ServedModel::Load(ShardSet& shards, const std::vector<Origin>& origins, bool values_only) {
  ExpectOriginOfEach(origins);
  if (!values_only) ExpectSlotsOf(*optimizer_, shards.info());
  store_.PrepareToLoad();
  try {
    for (size_t i = 0; i < origins.size(); ++i) LoadVariable(shards, i, origins[i], values_only);
    for (Table& table : tables_.tables()) LoadTable(shards, table, values_only);
  } catch (const Error&) {
    store_.ForgetLoaded();
    tables_.Renew();
    throw;
  }
}

void ServedModel::LoadVariable(ShardSet& shards, size_t variable, const Origin& origin,
                               bool values_only) {
  const auto read = [&](std::optional<size_t> slot, const std::string& suffix) {
    uint64_t first = origin.first;
    for (const std::span<float> piece : store_.Pieces(variable, slot)) {
      shards.Read(origin.whole, first, suffix, piece);
      first += piece.size();
    }
  };
  if (ElementCount(store_.variables()[variable]) == 0) return;
  shards.ExpectShape(origin);
  read(std::nullopt, "");
  if (values_only) return;
  for (size_t slot = 0; slot < SlotCount(*optimizer_); ++slot) {
    read(slot, SlotSuffix(optimizer_->kind, slot));
  }
  if (!KeepsPowers(optimizer_->kind)) return;
  store_.state(variable) = StateFrom(
      [&](std::span<float> powers) { shards.ReadPowers(origin.whole, origin.first, powers); });
}

void ServedModel::LoadTable(ShardSet& shards, Table& table, bool values_only) {
  shards.ReadRows(table.part(), "", table.Floats(std::nullopt));
  if (values_only) return;
  for (size_t slot = 0; slot < SlotCount(*optimizer_); ++slot) {
    shards.ReadRows(table.part(), SlotSuffix(optimizer_->kind, slot), table.Floats(slot));
  }
  if (!KeepsPowers(optimizer_->kind)) return;
  table.state() =
      StateFrom([&](std::span<float> powers) { shards.ReadPowers(table.part(), powers); });
}

void ServedModel::SetRestored(uint64_t step) {
  store_.SetLoaded();
  withheld_ = false;
  SetStep(step);
  if (policy_) policy_->BeginAt(step);
}

}  // namespace tfdist::runtime
