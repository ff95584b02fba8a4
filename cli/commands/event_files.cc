#include "cli/commands/event_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands/host_answer.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kFindLimit = 60s;
constexpr auto kFetchLimit = 120s;
constexpr uint64_t kMostBytesAtOnce = 8 << 20;  // of one file; the rest comes with the next update
constexpr size_t kMostFiles = 10'000;
constexpr const char* kPattern = "*tfevents*";  // events.out.tfevents.SECONDS.HOST...

bool LeadsOut(std::string_view path) {
  const fs::path parts(path);
  return path.empty() || parts.is_absolute() ||
         std::ranges::any_of(parts, [](const fs::path& part) { return part == ".."; });
}

uint64_t SizeOf(const fs::path& path) {
  std::error_code none;  // not there yet
  const auto size = fs::file_size(path, none);
  return none ? 0 : size;
}

}  // namespace

EventFilesThere LookForEventFiles(const Site& site, const SshOptions& ssh,
                                  const std::string& folder) {
  const HostAnswer answer = AskHost(
      site, ssh, {"find", folder, "-name", kPattern, "-type", "f", "-print", "-quit"}, kFindLimit);
  if (answer.output.find("tfevents") != std::string::npos) return {.any = true, .trouble = {}};
  return {.any = false, .trouble = answer.status == 0 ? "" : answer.LastLine()};
}

std::vector<EventFile> ParseEventFiles(std::string_view output) {
  std::vector<EventFile> files;
  while (!output.empty() && files.size() < kMostFiles) {
    std::string_view record = TakeUpTo('\0', output);
    // A complaint of find's ends with its line.
    record.remove_prefix(record.rfind('\n') + 1);  // npos + 1 is 0
    EventFile file;
    const std::string_view size = TakeUpTo(' ', record);
    const auto [stop, error] =
        std::from_chars(size.data(), size.data() + size.size(), file.size_bytes);
    if (error != std::errc() || stop != size.data() + size.size() || LeadsOut(record)) continue;
    file.path = record;
    files.push_back(std::move(file));
  }
  return files;
}

EventFilesCopy::EventFilesCopy(Site site, SshOptions ssh, std::string folder)
    : site_(std::move(site)), ssh_(std::move(ssh)), folder_(std::move(folder)) {
  std::string name = (fs::temp_directory_path() / "tfdist-events-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error(Phase::kFiles, WithErrno("cannot make a folder for event files", errno));
  }
  path_ = name;
}

EventFilesCopy::~EventFilesCopy() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void EventFilesCopy::Update() {
  const HostAnswer answer = AskHost(
      site_, ssh_, {"find", folder_, "-name", kPattern, "-type", "f", "-printf", "%s %P\\0"},
      kFindLimit);
  for (const EventFile& file : ParseEventFiles(answer.output)) {
    const uint64_t have = SizeOf(path_ / file.path);
    if (have < file.size_bytes) Fetch(file, have);
  }
}

void EventFilesCopy::Fetch(const EventFile& file, uint64_t from) {
  const uint64_t wanted = std::min(file.size_bytes - from, kMostBytesAtOnce);
  const std::string remote = folder_ + "/" + file.path;
  const HostAnswer answer =
      AskHost(site_, ssh_,
              {"dd", "if=" + remote, "iflag=skip_bytes,count_bytes,fullblock", "bs=64K",
               fmt::format("skip={}", from), fmt::format("count={}", wanted), "status=none"},
              kFetchLimit);
  if (answer.status != 0) {
    throw Error(Phase::kFiles, fmt::format("{} cannot be read: {}", remote, answer.LastLine()))
        .WithHost(site_.host.name);
  }
  fs::create_directories((path_ / file.path).parent_path());
  std::ofstream copy(path_ / file.path, std::ios::binary | std::ios::app);
  copy.write(answer.output.data(), static_cast<std::streamsize>(answer.output.size()));
  copy.flush();
  if (!copy) {
    throw Error(Phase::kFiles, fmt::format("cannot write {}", (path_ / file.path).string()));
  }
}

}  // namespace tfdist::cli
