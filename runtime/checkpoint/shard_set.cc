#include "runtime/checkpoint/shard_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

uint64_t FloatsOf(const TensorSpec& spec) { return ElementCount(spec); }

// Position of an id in a part; nullopt when it is not of it.
std::optional<uint64_t> PositionOf(uint64_t id, const TablePart& part) {
  if (id < part.first || (id - part.first) % part.step != 0) return std::nullopt;
  const uint64_t position = (id - part.first) / part.step;
  return position < part.rows ? std::optional(position) : std::nullopt;
}

uint64_t IdOf(uint64_t row, const TablePart& part) { return part.first + row * part.step; }

}  // namespace

ShardSet::ShardSet(std::filesystem::path checkpoint, std::vector<ShardFacts> shards, size_t first)
    : checkpoint_(std::move(checkpoint)), facts_(std::move(shards)) {
  for (size_t i = facts_.size(); i > 0; --i) {
    if (i - 1 != first) unopened_.push_back(i - 1);
  }
  if (first < facts_.size()) unopened_.push_back(first);
}

// False when there is none left.
bool ShardSet::OpenNext() {
  while (!unopened_.empty()) {
    const size_t shard = unopened_.back();
    unopened_.pop_back();
    const std::string name = ShardName(shard, facts_.size());
    if (!std::filesystem::exists(checkpoint_ / name)) {
      missing_.push_back(name);
      continue;
    }
    files_.push_back(std::make_unique<ShardFile>(checkpoint_ / name, facts_[shard]));
    Add(*files_.back());
    return true;
  }
  return false;
}

void ShardSet::OpenAll() {
  while (OpenNext()) {
  }
  if (!missing_.empty()) Lacks("parts of the model");
}

void ShardSet::Add(ShardFile& file) {
  for (const ShardVariable& variable : file.info().variables) {
    const Origin& origin = variable.origin;
    variables_[origin.whole] = {origin.whole, origin.shape};
    parts_[origin.whole][origin.first] = {FloatsOf(variable.part), variable.part.name, &file};
  }
  for (const TablePart& part : file.info().tables) tables_[part.table].push_back({part, &file});
}

const ShardInfo& ShardSet::info() {
  if (files_.empty() && !OpenNext()) Lacks("every shard");
  return files_.front()->info();
}

const std::pair<const uint64_t, ShardSet::Part>* ShardSet::FindPart(const std::string& whole,
                                                                    uint64_t first) const {
  const auto variable = parts_.find(whole);
  if (variable == parts_.end()) return nullptr;
  auto after = variable->second.upper_bound(first);
  if (after == variable->second.begin()) return nullptr;
  --after;
  return first < after->first + after->second.count ? &*after : nullptr;
}

const std::pair<const uint64_t, ShardSet::Part>& ShardSet::PartAt(const std::string& whole,
                                                                  uint64_t first) {
  while (true) {
    if (const auto* part = FindPart(whole, first)) return *part;
    if (!OpenNext()) Lacks(fmt::format("value {} of {}", first, whole));
  }
}

void ShardSet::ExpectShape(const Origin& origin) {
  PartAt(origin.whole, origin.first);
  const TensorSpec here{origin.whole, origin.shape};
  const TensorSpec& there = variables_.at(origin.whole);
  if (there == here) return;
  throw Error(Phase::kFiles, fmt::format("{} has {}, and the model has {}", checkpoint_.string(),
                                         ToString(there), ToString(here)));
}

void ShardSet::Read(const std::string& whole, uint64_t first, const std::string& slot,
                    std::span<float> to) {
  while (!to.empty()) {
    const auto& [begin, part] = PartAt(whole, first);
    const uint64_t within = first - begin;
    const size_t count = std::min<uint64_t>(to.size(), part.count - within);
    part.file->Read(part.tensor + slot, within, to.first(count));
    to = to.subspan(count);
    first += count;
  }
}

void ShardSet::ReadPowers(const std::string& whole, uint64_t first, std::span<float> to) {
  const Part& part = PartAt(whole, first).second;
  part.file->Read(StateName(part.tensor), 0, to);
}

void ShardSet::ReadRows(const TablePart& part, const std::string& slot, std::span<float> to) {
  std::vector<bool> found(part.rows);
  size_t left = part.rows;
  for (size_t next = 0; left > 0;) {
    const auto there = tables_.find(part.table);
    if (there == tables_.end() || next == there->second.size()) {
      if (!OpenNext()) Lacks(fmt::format("{} rows of table {}", left, part.table));
      continue;
    }
    const Rows& rows = there->second[next++];
    if (rows.part.width != part.width) {
      throw Error(Phase::kFiles,
                  fmt::format("table {} has rows of {} floats in {}, and of {} here", part.table,
                              rows.part.width, checkpoint_.string(), part.width));
    }
    for (uint32_t row = 0; row < part.rows; ++row) {
      const auto position = PositionOf(IdOf(row, part), rows.part);
      if (!position || found[row]) continue;
      rows.file->Read(TensorName(rows.part) + slot, *position * part.width,
                      to.subspan(size_t{row} * part.width, part.width));
      found[row] = true;
      --left;
    }
  }
}

void ShardSet::ReadPowers(const TablePart& part, std::span<float> to) {
  while (!tables_.contains(part.table)) {
    if (!OpenNext()) Lacks("table " + part.table);
  }
  const Rows& rows = tables_.at(part.table).front();
  rows.file->Read(StateName(TensorName(rows.part)), 0, to);
}

std::vector<TensorSpec> ShardSet::Variables() {
  OpenAll();
  std::vector<TensorSpec> variables;
  for (const auto& [name, spec] : variables_) variables.push_back(spec);
  return variables;
}

std::vector<TablePart> ShardSet::Tables() {
  OpenAll();
  std::vector<TablePart> tables;
  for (const auto& [name, parts] : tables_) {
    TablePart whole{name, 0, parts.front().part.width};
    for (const Rows& rows : parts) {
      const uint64_t last = IdOf(rows.part.rows - 1, rows.part);
      whole.rows = std::max(whole.rows, static_cast<uint32_t>(last + 1));
    }
    tables.push_back(whole);
  }
  return tables;
}

void ShardSet::Lacks(const std::string& what) const {
  const std::string why = missing_.empty()
                              ? "none of its shards has it"
                              : fmt::format("missing here: {}", fmt::join(missing_, ", "));
  throw Error(Phase::kFiles, fmt::format("{} lacks {}: {}", checkpoint_.string(), what, why),
              "a folder that all hosts share, or the missing files from the host that wrote them");
}

}  // namespace tfdist::runtime
