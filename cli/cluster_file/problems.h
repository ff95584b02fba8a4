// Collects the mistakes of a cluster file, so that one run names them all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tfdist::cli {

// One mistake in a cluster file: where, what was expected, the nearest known key if any.
struct PlanProblem {
  int line = 0;  // 0: the file as a whole
  int column = 0;
  std::string key;      // dotted: "roles.ps.gpus"
  std::string message;  // what is wrong and what was expected
  std::string hint;     // "did you mean 'command'?" or a remedy; may be empty
};

class PlanErrors : public Error {
 public:
  PlanErrors(std::filesystem::path file, std::vector<PlanProblem> problems);
  [[nodiscard]] const std::vector<PlanProblem>& problems() const { return problems_; }
  // One block of text: "cluster.toml:12:3: roles.ps.gpus: ..." a line each, hints indented.
  [[nodiscard]] std::string Report() const;

 private:
  std::filesystem::path file_;
  std::vector<PlanProblem> problems_;
};

// Of a value that --set has changed.
inline constexpr int kLineOfSet = -1;

// A place in the cluster file, and the dotted key that stands there.
struct Where {
  int line = 0;  // 0: the file as a whole; kLineOfSet: no line of it
  int column = 0;
  std::string key;

  // The place of a key below this one, as far as it is known: the same line.
  [[nodiscard]] Where Below(std::string_view name) const;
};

// A value of the file together with its place, for checks that come later.
template <typename T>
struct Located {
  T value{};
  Where where;
};

class Problems {
 public:
  // The same problem at the same place is kept once: a value may serve several tasks.
  void Add(const Where& where, std::string message, std::string hint = {});
  [[nodiscard]] bool empty() const { return problems_.empty(); }
  // In the order of the file.
  [[nodiscard]] std::vector<PlanProblem> Sorted() const;

 private:
  std::vector<PlanProblem> problems_;
};

// The user's own text inside a message: in quotes, cut, control characters made visible, so that a
// message stays one line and a terminal takes no orders from it.
std::string Quoted(std::string_view text);

}  // namespace tfdist::cli
