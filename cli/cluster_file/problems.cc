#include "cli/cluster_file/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace tfdist::cli {
namespace {

// A file that repeats one mistake for ever must not fill the memory with it.
constexpr size_t kMostProblems = 100;
constexpr size_t kLongestQuote = 80;

std::string Summary(const std::filesystem::path& file, const std::vector<PlanProblem>& problems) {
  return fmt::format("{}: {} mistake{}", file.string(), problems.size(),
                     problems.size() == 1 ? "" : "s");
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// At most `limit` bytes, and no half of a UTF-8 character at the end.
std::string_view Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && IsContinuation(text[limit])) --limit;
  return text.substr(0, limit);
}

// What TOML lets stand without quotes.
bool IsBareKey(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::string Line(const std::filesystem::path& file, const PlanProblem& problem) {
  std::string line = file.string() + ":";
  if (problem.line > 0) line += fmt::format("{}:{}:", problem.line, problem.column);
  if (problem.line == kLineOfSet) line += " --set:";
  if (!problem.key.empty()) line += " " + problem.key + ":";
  line += " " + problem.message + "\n";
  if (!problem.hint.empty()) line += "  " + problem.hint + "\n";
  return line;
}

}  // namespace

Where Where::Below(std::string_view name) const {
  const std::string part = IsBareKey(name) ? std::string(name) : Quoted(name);
  return {line, column, key.empty() ? part : key + "." + part};
}

void Problems::Add(const Where& where, std::string message, std::string hint) {
  if (problems_.size() == kMostProblems) return;
  const bool known = std::any_of(problems_.begin(), problems_.end(), [&](const PlanProblem& other) {
    return std::tie(other.line, other.column, other.key, other.message) ==
           std::tie(where.line, where.column, where.key, message);
  });
  if (known) return;
  problems_.push_back({where.line, where.column, where.key, std::move(message), std::move(hint)});
}

std::vector<PlanProblem> Problems::Sorted() const {
  std::vector<PlanProblem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const PlanProblem& a, const PlanProblem& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return sorted;
}

std::string Quoted(std::string_view text) {
  const std::string_view shown = Cut(text, kLongestQuote);
  std::string quoted = "'";
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + (shown.size() < text.size() ? "...'" : "'");
}

PlanErrors::PlanErrors(std::filesystem::path file, std::vector<PlanProblem> problems)
    : Error(Phase::kConfig, Summary(file, problems)),
      file_(std::move(file)),
      problems_(std::move(problems)) {}

std::string PlanErrors::Report() const {
  std::string report;
  for (const PlanProblem& problem : problems_) report += Line(file_, problem);
  return report;
}

}  // namespace tfdist::cli
