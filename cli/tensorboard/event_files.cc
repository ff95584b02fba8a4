#include "cli/tensorboard/event_files.h"

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

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kFindLimit = 60s;
constexpr auto kFetchLimit = 120s;
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

EventFilesThere LookForEventFiles(HostTalk& talk, const std::string& folder) {
  const HostAnswer answer =
      talk.Ask({"find", folder, "-name", kPattern, "-type", "f", "-print", "-quit"}, kFindLimit);
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

EventFilesCopy::EventFilesCopy(HostTalk& talk, std::string folder, CopyLimits limits)
    : talk_(talk), folder_(std::move(folder)), limits_(limits) {
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

std::vector<EventFilesCopy::Trouble> EventFilesCopy::Update() {
  const HostAnswer answer = talk_.Ask(
      {"find", folder_, "-name", kPattern, "-type", "f", "-printf", "%s %P\\0"}, kFindLimit);
  std::vector<Trouble> troubles;
  uint64_t room = limits_.update_bytes;
  for (const EventFile& file : ParseEventFiles(answer.output)) {
    const uint64_t have = SizeOf(path_ / file.path);
    if (have >= file.size_bytes || unreadable_.contains(file.path)) continue;
    const uint64_t left = limits_.all_bytes - copied_bytes_;
    if (left == 0 && !std::exchange(said_full_, true)) {
      troubles.push_back(
          {fmt::format("the event files below {} on {} have more than {} MiB: the rest "
                       "is not fetched",
                       folder_, talk_.site().host.name, limits_.all_bytes >> 20),
           "install TensorBoard on that host, or name a smaller folder: --logdir"});
    }
    const uint64_t wanted = std::min({file.size_bytes - have, limits_.file_bytes, room, left});
    if (wanted == 0) break;
    std::string why;
    const auto came = Fetch(file, have, wanted, why);
    if (!came) {
      unreadable_.insert(file.path);
      troubles.push_back({fmt::format("{}: {}/{} cannot be read and is passed over: {}",
                                      talk_.site().host.name, folder_, file.path, why),
                          ""});
      continue;
    }
    room -= *came;
    copied_bytes_ += *came;
  }
  return troubles;
}

std::optional<uint64_t> EventFilesCopy::Fetch(const EventFile& file, uint64_t from, uint64_t wanted,
                                              std::string& why) {
  HostAnswer answer = talk_.Ask(
      {"dd", "if=" + folder_ + "/" + file.path, "iflag=skip_bytes,count_bytes,fullblock", "bs=64K",
       fmt::format("skip={}", from), fmt::format("count={}", wanted), "status=none"},
      kFetchLimit);
  if (answer.status != 0) {
    why = answer.LastLine();
    return std::nullopt;
  }
  // No more than was asked for: hosts are not trusted with numbers either.
  const auto bytes = std::string_view(answer.output).substr(0, wanted);
  Append(file.path, bytes);
  return bytes.size();
}

void EventFilesCopy::Append(const std::string& path, std::string_view bytes) const {
  const fs::path here = path_ / path;
  std::error_code error;
  fs::create_directories(here.parent_path(), error);
  std::ofstream copy(here, std::ios::binary | std::ios::app);
  copy.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  copy.flush();
  if (error || !copy) throw Error(Phase::kFiles, fmt::format("cannot write {}", here.string()));
}

}  // namespace tfdist::cli
