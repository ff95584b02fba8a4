#include "runtime/summary/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "runtime/summary/record.h"

namespace tfdist::runtime {
namespace {

double WallClockSeconds() { return static_cast<double>(WallClockNanoseconds()) / 1e9; }

std::string OwnHostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::filesystem::path PathIn(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error(Phase::kFiles, fmt::format("{}: {}", folder.string(), failure.message()),
                "another folder with --summary-dir");
  }
  return folder / fmt::format("events.out.tfevents.{:010}.{}.{}",
                              WallClockNanoseconds() / 1'000'000'000, OwnHostName(), getpid());
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder)
    : path_(PathIn(folder)), file_(OpenFile(path_, O_WRONLY | O_CREAT | O_APPEND, 0644)) {
  WriteAll(file_.get(), Record(VersionEvent(WallClockSeconds())), path_.string());
}

void EventFile::Add(int64_t step, const std::vector<Scalar>& scalars) {
  WriteAll(file_.get(), Record(ScalarsEvent(WallClockSeconds(), step, scalars)), path_.string());
}

}  // namespace tfdist::runtime
