#include "runtime/ps/tables/table_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/ps/store/finite.h"
#include "runtime/ps/store/slot_names.h"
#include "runtime/transport/refusal.h"

namespace tfdist::runtime {
namespace {

// Both kinds share the steps of a push.
constexpr uint32_t kTableKey = 1U << 31;

void ExpectDistinct(const std::vector<TablePart>& parts) {
  std::set<std::pair<std::string, uint32_t>> known;
  for (const TablePart& part : parts) {
    if (!known.insert({part.table, part.first}).second) {
      throw Error(Phase::kRun, ToString(part) + ": there are two of that name");
    }
  }
}

bool SameRows(TablePart a, const TablePart& b) {
  a.initial = b.initial;
  return a == b;
}

uint64_t WordsOf(const RowCounts& counts, size_t width) {
  return uint64_t{counts.push} * (1 + width) + counts.pull;
}

void ExpectRows(const Table& table, std::span<const uint32_t> rows) {
  if (table.Holds(rows)) return;
  const uint32_t bad = *std::max_element(rows.begin(), rows.end());
  throw Error(Phase::kRun, fmt::format("{}: no row {} here", ToString(table.part()), bad));
}

void ExpectFinite(const Table& table, const RowsGradient& push) {
  if (AllFinite(push.values)) return;
  const size_t bad = FirstNotFinite(push.values);
  const TablePart& part = table.part();
  throw Refusal(
      RefusalKind::kNotFinite,
      fmt::format("{}: value {} of the gradient for id {} is {}", part.table, bad % push.width,
                  part.first + push.rows[bad / push.width] * part.step, push.values[bad]));
}

TensorSource CopyOf(std::string name, const TablePart& part, std::span<const float> floats) {
  const auto copy = std::make_shared<const std::vector<float>>(floats.begin(), floats.end());
  return {{std::move(name), {part.rows, part.width}}, {{*copy, copy}}};
}

// The next words of a payload.
class Words {
 public:
  explicit Words(std::span<const uint32_t> words) : rest_(words) {}
  std::span<const uint32_t> Take(size_t count) {
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::span<const float> TakeFloats(size_t count) {
    return {reinterpret_cast<const float*>(Take(count).data()), count};
  }

 private:
  std::span<const uint32_t> rest_;
};

}  // namespace

TableStore::TableStore(const std::vector<TablePart>& parts, const Optimizer& optimizer)
    : optimizer_(optimizer) {
  ExpectDistinct(parts);
  tables_.reserve(parts.size());
  for (const TablePart& part : parts) tables_.emplace_back(part, optimizer);
}

void TableStore::ExpectSame(const std::vector<TablePart>& parts) const {
  if (parts.size() != tables_.size()) {
    throw Refusal(
        RefusalKind::kMismatch,
        fmt::format("{} parts of tables asked for, {} are here", parts.size(), tables_.size()),
        kSameModel);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (SameRows(parts[i], tables_[i].part())) continue;
    throw Refusal(
        RefusalKind::kMismatch,
        fmt::format("{}: the table here is {}", ToString(parts[i]), ToString(tables_[i].part())),
        kSameModel);
  }
}

std::span<const TableStore::Section> TableStore::Read(const std::vector<RowCounts>& counts,
                                                      std::span<const uint32_t> payload) {
  uint64_t words = 0;
  uint64_t answer_floats = 0;
  int64_t last = -1;
  for (const RowCounts& section : counts) {
    if (section.table >= tables_.size()) throw Error(Phase::kRun, "message: no such table");
    if (section.table <= last) throw Error(Phase::kRun, "message: a table twice, or out of order");
    last = section.table;
    words += WordsOf(section, tables_[section.table].width());
    answer_floats += uint64_t{section.pull} * tables_[section.table].width();
  }
  if (words != payload.size()) {
    throw Error(Phase::kRun, fmt::format("message: {} bytes of rows where {} belong",
                                         payload.size_bytes(), words * sizeof(uint32_t)));
  }
  if (answer_floats * sizeof(float) > kMaxBlockBytes) {
    throw Error(Phase::kRun, "message: more rows wanted than an answer holds");
  }
  sections_.clear();
  rows_.clear();
  rows_.reserve(payload.size());  // so that the sections' rows stay where they are
  Words rest(payload);
  for (const RowCounts& section : counts) {
    const Table& table = tables_[section.table];
    Section& read = sections_.emplace_back();
    read.table = section.table;
    read.push.width = table.width();
    read.push.rows = Copied(rest.Take(section.push));
    read.pull = Copied(rest.Take(section.pull));
    read.push.values = rest.TakeFloats(section.push * table.width());
    read.push_ends = section.push_ends;
    ExpectRows(table, read.push.rows);
    ExpectRows(table, read.pull);
    ExpectFinite(table, read.push);
  }
  return sections_;
}

std::span<const uint32_t> TableStore::Copied(std::span<const uint32_t> rows) {
  rows_.insert(rows_.end(), rows.begin(), rows.end());
  return std::span<const uint32_t>(rows_).last(rows.size());
}

bool TableStore::IsPushed(const Section& section) const {
  return !section.push.rows.empty() || (section.push_ends && moves_all_rows());
}

void TableStore::Push(std::span<const Section> sections, PushSteps& steps) {
  for (const Section& section : sections) {
    if (!IsPushed(section)) continue;
    const bool sum = optimizer_->sum_repeated_rows();
    const RowsGradient gradient = sum ? summer_.Sum(section.push) : section.push;
    if (moves_all_rows()) {
      PushToAllRows(section, gradient, steps);
    } else {
      tables_[section.table].Apply(*optimizer_, StepOf(section.table, steps), gradient);
    }
  }
}

// Nothing is kept of a message until the last one comes: what a server remembers stays small.
void TableStore::PushToAllRows(const Section& section, const RowsGradient& gradient,
                               PushSteps& steps) {
  Table& table = tables_[section.table];
  // StepOf remembers the steps of Adam, the only one that moves all rows.
  const bool is_first = steps.Find(kTableKey | section.table) == nullptr;
  if (is_first) table.DecayAllRows(*optimizer_);
  const OptimizerStep step = StepOf(section.table, steps);
  table.GrowRows(*optimizer_, gradient);
  if (section.push_ends) table.MoveAllRows(*optimizer_, step);
}

void TableStore::Sum(std::span<const Section> sections) {
  means_.resize(tables_.size());
  for (const Section& section : sections) {
    if (IsPushed(section)) means_[section.table].Add(summer_.Sum(section.push));
  }
}

void TableStore::ApplyMeans() {
  for (size_t i = 0; i < means_.size(); ++i) {
    if (!means_[i].added()) continue;
    tables_[i].Apply(*optimizer_, tables_[i].NextStep(*optimizer_), means_[i].Take());
  }
}

void TableStore::Pull(std::span<const Section> sections, float* to) const {
  for (const Section& section : sections) {
    const Table& table = tables_[section.table];
    table.Gather(section.pull, to);
    to += section.pull.size() * table.width();
  }
}

std::vector<TensorSource> TableStore::Snapshot() {
  std::vector<TensorSource> sources;
  for (Table& table : tables_) {
    const std::string name = TensorName(table.part());
    sources.push_back(CopyOf(name, table.part(), table.Floats(std::nullopt)));
    for (size_t slot = 0; slot < optimizer_->slot_count(); ++slot) {
      sources.push_back(CopyOf(name + SlotSuffix(optimizer_->spec().kind, slot), table.part(),
                               table.Floats(slot)));
    }
    if (KeepsPowers(optimizer_->spec().kind)) {
      sources.push_back(SourceOf(StateName(name), table.state()));
    }
  }
  return sources;
}

std::vector<TablePart> TableStore::parts() const {
  std::vector<TablePart> parts;
  for (const Table& table : tables_) parts.push_back(table.part());
  return parts;
}

void TableStore::Renew() {
  if (optimizer_) *this = TableStore(parts(), *optimizer_);
}

size_t TableStore::FloatsPulled(std::span<const Section> sections) {
  size_t floats = 0;
  for (const Section& section : sections) floats += section.pull.size() * section.push.width;
  return floats;
}

OptimizerStep TableStore::StepOf(uint32_t table, PushSteps& steps) {
  if (const OptimizerStep* step = steps.Find(kTableKey | table)) return *step;
  const OptimizerStep step = tables_[table].NextStep(*optimizer_);
  // With Adam alone a second step would differ from the first.
  if (optimizer_->spec().kind == OptimizerKind::kAdam) steps.Add(kTableKey | table, step);
  return step;
}

}  // namespace tfdist::runtime
