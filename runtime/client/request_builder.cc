#include "runtime/client/request_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime {

std::vector<RequestPart> BlockPartsBuilder::Take() {
  const auto by_offset = [](const auto& a, const auto& b) {
    return a.range.offset < b.range.offset;
  };
  for (RequestPart& part : parts_) {
    std::sort(part.push.begin(), part.push.end(), by_offset);
    std::sort(part.pull.begin(), part.pull.end(), by_offset);
    positions_[part.block] = 0;
  }
  return std::exchange(parts_, {});
}

RequestPart& BlockPartsBuilder::PartOf(uint32_t block) {
  if (block >= positions_.size()) positions_.resize(block + 1);
  if (positions_[block] == 0) {
    parts_.emplace_back().block = block;
    positions_[block] = parts_.size();
  }
  return parts_[positions_[block] - 1];
}

RequestBuilder::RequestBuilder(const Sharding& sharding, std::vector<const ServerFacts*> servers)
    : sharding_(sharding),
      servers_(std::move(servers)),
      blocks_(servers_.size()),
      rows_(servers_.size()) {}

void RequestBuilder::Check(const Gradients& gradients, const Targets& targets,
                           const RowGradients& row_gradients, const RowTargets& row_targets) {
  CheckAll(gradients, "gradient");
  CheckAll(targets, "target");
  CheckAllRows(row_gradients, "gradient");
  CheckAllRows(row_targets, "target");
}

template <typename Items>
void RequestBuilder::CheckAll(const Items& items, const char* what) {
  const std::vector<TensorSpec>& variables = sharding_.variables();
  seen_.assign(variables.size(), false);
  for (const auto& item : items) {
    if (item.variable >= variables.size()) {
      throw Error(Phase::kUsage,
                  fmt::format("{} for variable {} of {}", what, item.variable, variables.size()));
    }
    const TensorSpec& variable = variables[item.variable];
    if (seen_[item.variable]) {
      throw Error(Phase::kUsage, fmt::format("two {}s for {}", what, ToString(variable)));
    }
    seen_[item.variable] = true;
    if (item.values.size() != sharding_.FloatsOf(item.variable)) {
      throw Error(Phase::kUsage, fmt::format("{} for {} has {} values", what, ToString(variable),
                                             item.values.size()));
    }
  }
}

template <typename Items>
void RequestBuilder::CheckAllRows(const Items& items, const char* what) {
  const std::vector<TableSpec>& tables = sharding_.tables();
  seen_.assign(tables.size(), false);
  for (const auto& item : items) {
    if (item.table >= tables.size()) {
      throw Error(Phase::kUsage,
                  fmt::format("row {} for table {} of {}", what, item.table, tables.size()));
    }
    const TableSpec& table = tables[item.table];
    if (seen_[item.table]) {
      throw Error(Phase::kUsage, fmt::format("two row {}s for table {}", what, table.name));
    }
    seen_[item.table] = true;
    if (item.values.size() != item.ids.size() * table.width) {
      throw Error(Phase::kUsage, fmt::format("row {} for table {}: {} values for {} ids", what,
                                             table.name, item.values.size(), item.ids.size()));
    }
  }
}

void RequestBuilder::Add(const Gradients& gradients, const Targets& targets,
                         const RowGradients& row_gradients, const RowTargets& row_targets,
                         RequestState& state) {
  for (const RowGradient& item : row_gradients) Split(item.table, item.ids, state);
  for (const RowTarget& item : row_targets) Split(item.table, item.ids, state);
  Add(gradients);
  for (const Target& target : targets) AddPieces(target.variable, target.values.data());
  AddRows(row_gradients, row_targets, state);
}

void RequestBuilder::Add(const Gradients& gradients) {
  for (const Gradient& gradient : gradients) AddPieces(gradient.variable, gradient.values.data());
}

std::vector<RequestPart> RequestBuilder::Take(size_t server) {
  std::vector<RequestPart> parts = blocks_[server].Take();
  std::vector<RequestPart> about_rows = rows_[server].Take();
  std::move(about_rows.begin(), about_rows.end(), std::back_inserter(parts));
  return parts;
}

void RequestBuilder::Recycle(RequestState& state) {
  for (auto& split : std::exchange(state.splits, {})) spare_splits_.push_back(std::move(split));
}

void RequestBuilder::Split(size_t table, std::span<const int64_t> ids, RequestState& state) {
  if (spare_splits_.empty()) spare_splits_.push_back(std::make_unique<SplitIds>());
  try {
    spare_splits_.back()->Split(sharding_.LocationOf(table).rows, ids,
                                sharding_.tables()[table].name);
  } catch (const Error& error) {
    throw Error(Phase::kUsage, error.cause(), error.remedy());
  }
  state.splits.push_back(std::move(spare_splits_.back()));
  spare_splits_.pop_back();
}

// In the order in which they were split.
void RequestBuilder::AddRows(const RowGradients& gradients, const RowTargets& targets,
                             RequestState& state) {
  auto split = state.splits.begin();
  for (const RowGradient& item : gradients) {
    ForEachSlice(item.table, **split++, [&](size_t server, RowsSlice slice) {
      if (slice.rows.empty() && !servers_[server]->moves_all_rows) return;
      slice.gradients = item.values.data();
      rows_[server].AddPush(OnceEach(server, slice, state));
    });
  }
  for (const RowTarget& item : targets) {
    ForEachSlice(item.table, **split++, [&](size_t server, RowsSlice slice) {
      if (slice.rows.empty()) return;
      slice.values = item.values.data();
      rows_[server].AddPull(slice);
    });
  }
}

template <typename Use>
void RequestBuilder::ForEachSlice(size_t table, const SplitIds& split, Use use) const {
  const std::vector<Sharding::TableLocation::Part>& parts = sharding_.LocationOf(table).parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    RowsSlice slice;
    slice.table = parts[i].position;
    slice.width = sharding_.tables()[table].width;
    slice.rows = split.RowsOf(i);
    if (parts.size() > 1) slice.positions = split.PositionsOf(i);
    use(parts[i].server, slice);
  }
}

// A server sums what comes in one message. A row that is in several must be in one of them.
RowsSlice RequestBuilder::OnceEach(size_t server, const RowsSlice& push, RequestState& state) {
  if (!RowPartsBuilder::IsCut(push) || !servers_[server]->sums_rows) return push;
  return SumRepeated(push, row_summer_, state.sums.emplace_back());
}

template <typename Float>
void RequestBuilder::AddPieces(size_t variable, Float* values) {
  for (const Sharding::Location& location : sharding_.PartsOf(variable)) {
    const BlockLayout& layout = *sharding_.shares()[location.server].layout;
    for (const Extent& extent : layout.OfVariable(location.position)) {
      blocks_[location.server].Add(extent, values, variable, location.first + extent.first,
                                   sharding_.FloatsOf(variable));
    }
  }
}

}  // namespace tfdist::runtime
