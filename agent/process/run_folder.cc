#include "agent/process/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/process/record.h"
#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

// execve(2) takes a few MiB of arguments and environment; this is far above.
constexpr size_t kSpecLimitBytes = 64 << 20;
constexpr size_t kSmallLimitBytes = 64 << 10;
// What is reserved for an exit status, and the longest error text that fits into it.
constexpr size_t kExitBytes = 4096;
constexpr size_t kErrorLimitBytes = kExitBytes - 256;

// Flags of an exit record.
constexpr uint64_t kByUs = 1;
constexpr uint64_t kPermanent = 2;

// Where the first exit status is written, and a later one.
constexpr const char* kExitAside = "exit.part";
constexpr const char* kLaterExitAside = "exit.later";

[[noreturn]] void Fail(std::string_view what, const std::filesystem::path& path) {
  throw Error(Phase::kFiles, WithErrno(fmt::format("{} {}", what, path.string()), errno));
}

void Rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) Fail("cannot replace", to);
}

// Unlike ReplaceFile it does not wait for the disk.
void WriteRecord(const std::filesystem::path& path, std::string_view record) {
  const std::filesystem::path aside = path.string() + ".part";
  const UniqueFd fd = OpenFile(aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  WriteAll(fd.get(), record, aside.string());
  Rename(aside, path);
}

std::optional<RecordReader> ReadRecord(const std::filesystem::path& path, size_t limit_bytes) {
  auto record = ReadFileIfExists(path, limit_bytes);
  return record ? RecordReader::Open(std::move(*record)) : std::nullopt;
}

uint64_t Unsigned(int64_t number) { return static_cast<uint64_t>(number); }
int64_t Signed(uint64_t number) { return static_cast<int64_t>(number); }

ProcessId ReadProcessId(RecordReader& reader) {
  const auto pid = static_cast<pid_t>(reader.Number());
  return {.pid = pid, .start_time = reader.Number()};
}

std::optional<RunPids> ReadRunPids(const std::filesystem::path& run_folder) {
  auto reader = ReadRecord(run_folder / "pid", kSmallLimitBytes);
  if (!reader) return std::nullopt;
  RunPids pids;
  pids.holder = ReadProcessId(*reader);
  pids.task = ReadProcessId(*reader);
  pids.boot_id = reader->Text();
  return reader->good() ? std::optional(std::move(pids)) : std::nullopt;
}

std::optional<protocol::TaskExit> ReadRunExit(const std::filesystem::path& run_folder) {
  auto reader = ReadRecord(run_folder / "exit", kSmallLimitBytes);
  if (!reader) return std::nullopt;
  protocol::TaskExit exit;
  exit.code = static_cast<int>(Signed(reader->Number()));
  exit.signal = static_cast<int>(Signed(reader->Number()));
  const uint64_t flags = reader->Number();
  exit.by_us = (flags & kByUs) != 0;
  exit.permanent = (flags & kPermanent) != 0;
  exit.error = reader->Text();
  exit.lost_bytes = reader->Number();
  return reader->good() ? std::optional(std::move(exit)) : std::nullopt;
}

void Reserve(const std::filesystem::path& path) {
  const UniqueFd fd = OpenFile(path, O_WRONLY | O_CREAT | O_NOFOLLOW);
  WriteAll(fd.get(), std::string(kExitBytes, '\0'), path.string());
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
  RecordWriter writer;
  writer.Put(spec.task).Put(spec.argv).Put(spec.env).Put(spec.cwd);
  writer.Put(spec.merged_output ? 1 : 0).Put(spec.log_limit_bytes).Put(Unsigned(spec.grace_ms));
  writer.Put(Unsigned(spec.attempt)).Put(Unsigned(spec.run));
  WriteRecord(run_folder / "spec", writer.Finish());
}

bool HasSpec(const std::filesystem::path& run_folder) {
  std::error_code error;
  return std::filesystem::exists(run_folder / "spec", error);
}

RunSpec ReadRunSpec(const std::filesystem::path& run_folder) {
  auto reader = ReadRecord(run_folder / "spec", kSpecLimitBytes);
  RunSpec spec;
  if (reader) {
    spec.task = reader->Text();
    spec.argv = reader->Texts();
    spec.env = reader->Texts();
    spec.cwd = reader->Text();
    spec.merged_output = reader->Number() != 0;
    spec.log_limit_bytes = reader->Number();
    spec.grace_ms = Signed(reader->Number());
    spec.attempt = static_cast<int>(Signed(reader->Number()));
    spec.run = static_cast<int>(Signed(reader->Number()));
  }
  if (!reader || !reader->good() || spec.argv.empty()) {
    throw Error(Phase::kFiles,
                fmt::format("{} is missing or damaged", (run_folder / "spec").string()));
  }
  return spec;
}

RunState ReadRunState(const std::filesystem::path& run_folder) {
  RunState state;
  state.pids = ReadRunPids(run_folder);
  state.holder_running =
      state.pids && state.pids->boot_id == BootId() && IsRunning(state.pids->holder);
  // Last: a holder that was gone above has written all that it ever will.
  state.exit = ReadRunExit(run_folder);
  return state;
}

void WriteRunPids(const std::filesystem::path& run_folder, const RunPids& pids) {
  RecordWriter writer;
  writer.Put(Unsigned(pids.holder.pid)).Put(pids.holder.start_time);
  writer.Put(Unsigned(pids.task.pid)).Put(pids.task.start_time);
  writer.Put(pids.boot_id);
  WriteRecord(run_folder / "pid", writer.Finish());
}

void ReserveRunExit(const std::filesystem::path& run_folder) {
  Reserve(run_folder / kExitAside);
  Reserve(run_folder / kLaterExitAside);
}

void ReleaseRunExit(const std::filesystem::path& run_folder) {
  unlink((run_folder / kLaterExitAside).c_str());
}

void WriteRunExit(const std::filesystem::path& run_folder, const protocol::TaskExit& exit) {
  RecordWriter writer;
  writer.Put(Unsigned(exit.code))
      .Put(Unsigned(exit.signal))
      .Put((exit.by_us ? kByUs : 0) | (exit.permanent ? kPermanent : 0));
  writer.Put(std::string_view(exit.error).substr(0, kErrorLimitBytes)).Put(exit.lost_bytes);
  const std::string record = writer.Finish();

  const std::filesystem::path aside = FreeExitAside(run_folder);
  // Over the reserved bytes, not instead of them: that needs no new space.
  const UniqueFd fd = OpenFile(aside, O_WRONLY | O_CREAT | O_NOFOLLOW);
  WriteAll(fd.get(), record, aside.string());
  if (ftruncate(fd.get(), static_cast<off_t>(record.size())) != 0) Fail("cannot cut", aside);
  Rename(aside, run_folder / "exit");
}

}  // namespace tfdist::agent
