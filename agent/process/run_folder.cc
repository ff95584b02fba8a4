#include "agent/process/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

// execve(2) takes a few MiB of arguments and environment; this is far above.
constexpr size_t kSpecLimitBytes = 64 << 20;
constexpr size_t kSmallLimitBytes = 64 << 10;

// Where the first exit status is written, and a later one.
constexpr const char* kExitAside = "exit.part";
constexpr const char* kLeft = "left";
constexpr const char* kClients = "clients";
constexpr const char* kLaterExitAside = "exit.later";

[[noreturn]] void FailAt(std::string_view what, const std::filesystem::path& path) {
  throw Error(Phase::kFiles, WithErrno(fmt::format("{} {}", what, path.string()), errno));
}

void Rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) FailAt("cannot replace", to);
}

// Unlike ReplaceFile it does not wait for the disk.
void WriteRecord(const std::filesystem::path& path, std::string_view record) {
  const std::filesystem::path aside = path.string() + ".part";
  const UniqueFd fd = OpenFile(aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  WriteAll(fd.get(), record, aside.string());
  FailPoint("record written");
  Rename(aside, path);
  FailPoint("record renamed");
}

void WriteLines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  WriteRecord(path, text);
}

std::vector<std::string> ReadLines(const std::filesystem::path& path) try {
  std::vector<std::string> lines;
  const std::string text = ReadOwnFileIfExists(path, kSmallLimitBytes).value_or("");
  for (std::string_view rest = text; !rest.empty();) lines.emplace_back(TakeUpTo('\n', rest));
  return lines;
} catch (const Error&) {
  return {};
}

// nullopt when there is no such file, or no whole record in it.
template <typename Value>
std::optional<Value> ReadRecord(const std::filesystem::path& path, size_t limit_bytes,
                                std::optional<Value> (*decode)(std::string)) {
  auto record = ReadOwnFileIfExists(path, limit_bytes);
  return record ? decode(std::move(*record)) : std::nullopt;
}

void Reserve(const std::filesystem::path& path) {
  const UniqueFd fd = OpenFile(path, O_WRONLY | O_CREAT | O_NOFOLLOW);
  WriteAll(fd.get(), std::string(kExitRecordBytes, '\0'), path.string());
}

bool IsMissing(const std::filesystem::path& path) {
  std::error_code error;
  return symlink_status(path, error).type() == std::filesystem::file_type::not_found;
}

std::filesystem::path FreeExitAside(const std::filesystem::path& run_folder) {
  std::error_code error;
  const std::filesystem::path first = run_folder / kExitAside;
  return std::filesystem::exists(first, error) ? first : run_folder / kLaterExitAside;
}

}  // namespace

std::string RunFolderName(int attempt, int run) { return fmt::format("run-{}-{}", attempt, run); }

void WriteRunSpec(const std::filesystem::path& run_folder, const RunSpec& spec) {
  MakePrivateFolder(run_folder);
  Reserve(run_folder / kExitAside);
  Reserve(run_folder / kLaterExitAside);
  WriteRecord(run_folder / "spec", EncodeRunSpec(spec));
}

std::filesystem::path WriteContainerEnv(const std::filesystem::path& run_folder,
                                        std::string_view text) {
  MakePrivateFolder(run_folder);
  std::filesystem::path file = run_folder / "env";
  WriteRecord(file, text);
  return file;
}

bool HasSpec(const std::filesystem::path& run_folder) {
  std::error_code error;
  return std::filesystem::exists(run_folder / "spec", error);
}

std::optional<std::pair<int, int>> FindNewestRun(const std::filesystem::path& task_folder) {
  std::optional<std::pair<int, int>> newest;
  std::error_code error;
  std::filesystem::directory_iterator entry(task_folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::pair<int, int> found;
    const std::string name = entry->path().filename();
    if (std::sscanf(name.c_str(), "run-%d-%d", &found.first, &found.second) != 2) continue;
    if (name != RunFolderName(found.first, found.second) || !HasSpec(entry->path())) continue;
    newest = std::max(newest, {found});
  }
  return newest;
}

RunSpec ReadRunSpec(const std::filesystem::path& run_folder) {
  auto spec = ReadRecord(run_folder / "spec", kSpecLimitBytes, DecodeRunSpec);
  if (spec) return std::move(*spec);
  throw Error(Phase::kFiles,
              fmt::format("{} is missing or damaged", (run_folder / "spec").string()));
}

RunState ReadRunState(const std::filesystem::path& run_folder) {
  RunState state;
  state.pids = ReadRecord(run_folder / "pid", kSmallLimitBytes, DecodeRunPids);
  const bool of_this_boot = state.pids && state.pids->boot_id == BootId();
  state.holder_running = of_this_boot && IsRunning(state.pids->holder);
  // Last: a holder that was gone above has written all that it ever will.
  state.exit = ReadRecord(run_folder / "exit", kSmallLimitBytes, DecodeRunExit);
  state.lost = of_this_boot && !state.holder_running &&
               !(state.exit && IsMissing(run_folder / kLaterExitAside));
  return state;
}

void WriteRunPids(const std::filesystem::path& run_folder, const RunPids& pids) {
  WriteRecord(run_folder / "pid", EncodeRunPids(pids));
}

void NoteThatAllHasEnded(const std::filesystem::path& run_folder) {
  unlink((run_folder / kLaterExitAside).c_str());
}

void WriteRunExit(const std::filesystem::path& run_folder, const protocol::TaskExit& exit) {
  const std::string record = EncodeRunExit(exit);
  const std::filesystem::path aside = FreeExitAside(run_folder);
  // Over the reserved bytes, not instead of them: that needs no new space.
  const UniqueFd fd = OpenFile(aside, O_WRONLY | O_CREAT | O_NOFOLLOW);
  WriteAll(fd.get(), record, aside.string());
  if (ftruncate(fd.get(), static_cast<off_t>(record.size())) != 0) FailAt("cannot cut", aside);
  FailPoint("exit written");
  Rename(aside, run_folder / "exit");
  FailPoint("exit renamed");
}

std::vector<std::string> ReadRunLeft(const std::filesystem::path& run_folder) {
  return ReadLines(run_folder / kLeft);
}

std::vector<std::string> ReadRunClients(const std::filesystem::path& run_folder) {
  return ReadLines(run_folder / kClients);
}

void WriteRunLeft(const std::filesystem::path& run_folder,
                  const std::vector<std::string>& processes) {
  WriteLines(run_folder / kLeft, processes);
}

void WriteRunClients(const std::filesystem::path& run_folder,
                     const std::vector<std::string>& calls) {
  WriteLines(run_folder / kClients, calls);
}

}  // namespace tfdist::agent
