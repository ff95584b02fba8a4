#include "cli/deploy/set_up_output.h"

#include <fmt/format.h>

#include <utility>

#include "base/size_text.h"
#include "base/text.h"

namespace tfdist::cli {
namespace {

constexpr size_t kLongestLine = 4096;

}  // namespace

void SetUpOutput::Add(const std::string& host, const protocol::SetUpProgress& progress) {
  const MutexLock lock(mutex_);
  std::string& open = unfinished_[host];
  if (progress.left_out > 0) {
    AddLine(host, std::exchange(open, {}));
    AddLine(host, fmt::format("tfdist: {} of its output left out", SizeText(progress.left_out)));
  }
  open += progress.output.value;
  std::string_view rest = open;
  while (rest.find('\n') != rest.npos) AddLine(host, TakeUpTo('\n', rest));
  if (rest.size() > kLongestLine) AddLine(host, std::exchange(rest, {}));
  open = std::string(rest);
}

void SetUpOutput::Finish(const std::string& host) {
  const MutexLock lock(mutex_);
  AddLine(host, std::exchange(unfinished_[host], {}));
}

std::vector<std::string> SetUpOutput::Take() {
  const MutexLock lock(mutex_);
  return std::exchange(lines_, {});
}

void SetUpOutput::AddLine(const std::string& host, std::string_view line) {
  line = NewestFrame(line);
  if (!line.empty()) lines_.push_back(fmt::format("{} | {}", host, line.substr(0, kLongestLine)));
}

}  // namespace tfdist::cli
