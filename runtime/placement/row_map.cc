#include "runtime/placement/row_map.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

RowMap::Rule CheckedRule(uint64_t rows, uint64_t parts, LookupRule rule) {
  if (rows == 0) throw Error(Phase::kRun, "a variable without rows", "give it at least one row");
  if (rows > std::numeric_limits<uint32_t>::max()) {
    throw Error(Phase::kRun, fmt::format("a variable of {} rows", rows),
                "the limit is 4294967295 rows: use several variables");
  }
  if (parts == 0) throw Error(Phase::kRun, "a variable of 0 parts", "give it at least one part");
  if (parts > rows) {
    throw Error(Phase::kRun, fmt::format("{} parts for {} rows", parts, rows),
                "every part needs a row: use fewer parts");
  }
  if (parts > kMaxParts) {
    throw Error(Phase::kRun, fmt::format("{} parts of one variable", parts),
                fmt::format("the limit is {} parts: make them larger", kMaxParts));
  }
  const auto row_count = static_cast<uint32_t>(rows);
  const auto part_count = static_cast<uint32_t>(parts);
  if (rule == LookupRule::kMod) return ModRows(row_count, part_count);
  return DivRows(row_count, part_count);
}

}  // namespace

RowSet DivRows::RowsOf(uint32_t part) const {
  return {FirstOf(part), 1, rows_ + (part < longer_parts_ ? 1 : 0)};
}

RowSet ModRows::RowsOf(uint32_t part) const {
  return {part, parts_, rows_ / parts_ + (part < rows_ % parts_ ? 1 : 0)};
}

RowMap::RowMap(uint64_t rows, uint64_t parts, LookupRule rule)
    : rows_(static_cast<uint32_t>(rows)),
      parts_(static_cast<uint32_t>(parts)),
      rule_(CheckedRule(rows, parts, rule)) {}

RowSet RowMap::RowsOf(uint32_t part) const {
  return std::visit([part](const auto& rule) { return rule.RowsOf(part); }, rule_);
}

RowAddress RowMap::Find(int64_t id) const {
  if (id < 0 || id >= rows_) {
    throw Error(Phase::kRun, fmt::format("id {} of {} rows", id, rows_),
                fmt::format("ids go from 0 to {}", rows_ - 1));
  }
  return std::visit([id](const auto& rule) { return rule.Find(static_cast<uint32_t>(id)); }, rule_);
}

}  // namespace tfdist::runtime
