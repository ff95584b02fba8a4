// A real process whose output is read line by line.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tfdist::runtime::testing {

class Child {
 public:
  // Starts argv[0] with exactly this environment ("NAME=value"); stdout and stderr are one stream.
  Child(const std::vector<std::string>& argv, const std::vector<std::string>& environment);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  // Kills it if it still runs.
  ~Child();

  void Signal(int signal) const;
  // Reads on until a line fulfils the condition; nullopt when the output ends or the time is up.
  std::optional<std::string> ReadUntil(const std::function<bool(const std::string&)>& condition,
                                       std::chrono::seconds limit);
  // Reads to the end of its output, then its exit code; 128 + signal when one ended it.
  int Wait(std::chrono::seconds limit);
  // That it has used so far, all of its threads together.
  [[nodiscard]] std::chrono::duration<double> CpuTime() const;
  // All lines read so far.
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  bool TakeLine(std::string& line);
  bool ReadMore(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  UniqueFd output_;
  std::string rest_;  // behind the last whole line
  std::vector<std::string> lines_;
};

}  // namespace tfdist::runtime::testing
