#include "agent/process/run_records.h"

#include <cassert>
#include <string_view>
#include <utility>

#include "agent/process/record.h"

namespace tfdist::agent {
namespace {

constexpr size_t kErrorLimitBytes = kExitRecordBytes - 256;

// Flags of an exit record.
constexpr uint64_t kByUs = 1;
constexpr uint64_t kPermanent = 2;
constexpr uint64_t kOutOfMemory = 4;
constexpr uint64_t kCpuTimeOver = 8;

uint64_t Unsigned(int64_t number) { return static_cast<uint64_t>(number); }
int64_t Signed(uint64_t number) { return static_cast<int64_t>(number); }

ProcessId ReadProcessId(RecordReader& reader) {
  const auto pid = static_cast<pid_t>(reader.Number());
  return {.pid = pid, .start_time = reader.Number()};
}

}  // namespace

std::string EncodeRunSpec(const RunSpec& spec) {
  RecordWriter writer;
  writer.Put(spec.task).Put(spec.argv).Put(spec.env).Put(spec.cwd);
  writer.Put(spec.merged_output ? 1 : 0).Put(spec.log_limit_bytes).Put(Unsigned(spec.grace_ms));
  writer.Put(Unsigned(spec.attempt)).Put(Unsigned(spec.run));
  writer.Put(Unsigned(spec.warning_signal)).Put(spec.container).Put(spec.engine);
  return writer.Finish();
}

std::optional<RunSpec> DecodeRunSpec(std::string record) {
  auto reader = RecordReader::Open(std::move(record));
  if (!reader) return std::nullopt;
  RunSpec spec;
  spec.task = reader->Text();
  spec.argv = reader->Texts();
  spec.env = reader->Texts();
  spec.cwd = reader->Text();
  spec.merged_output = reader->Number() != 0;
  spec.log_limit_bytes = reader->Number();
  spec.grace_ms = Signed(reader->Number());
  spec.attempt = static_cast<int>(Signed(reader->Number()));
  spec.run = static_cast<int>(Signed(reader->Number()));
  spec.warning_signal = static_cast<int>(Signed(reader->Number()));
  spec.container = reader->Text();
  spec.engine = reader->Text();
  if (!reader->good() || spec.argv.empty()) return std::nullopt;
  return spec;
}

std::string EncodeRunPids(const RunPids& pids) {
  RecordWriter writer;
  writer.Put(Unsigned(pids.holder.pid)).Put(pids.holder.start_time);
  writer.Put(Unsigned(pids.task.pid)).Put(pids.task.start_time);
  writer.Put(pids.boot_id).Put(pids.cgroups).Put(Unsigned(pids.oom_score));
  return writer.Finish();
}

std::optional<RunPids> DecodeRunPids(std::string record) {
  auto reader = RecordReader::Open(std::move(record));
  if (!reader) return std::nullopt;
  RunPids pids;
  pids.holder = ReadProcessId(*reader);
  pids.task = ReadProcessId(*reader);
  pids.boot_id = reader->Text();
  pids.cgroups = reader->Text();
  pids.oom_score = static_cast<int>(Signed(reader->Number()));
  return reader->good() ? std::optional(std::move(pids)) : std::nullopt;
}

std::string EncodeRunExit(const protocol::TaskExit& exit) {
  RecordWriter writer;
  writer.Put(Unsigned(exit.code))
      .Put(Unsigned(exit.signal))
      .Put((exit.by_us ? kByUs : 0) | (exit.permanent ? kPermanent : 0) |
           (exit.out_of_memory ? kOutOfMemory : 0) | (exit.cpu_time_over ? kCpuTimeOver : 0));
  writer.Put(std::string_view(exit.error).substr(0, kErrorLimitBytes)).Put(exit.lost_bytes);
  writer.Put(exit.peak_bytes).Put(Unsigned(exit.ended_ns));
  std::string record = writer.Finish();
  assert(record.size() <= kExitRecordBytes);  // what is reserved for it on the disk
  return record;
}

std::optional<protocol::TaskExit> DecodeRunExit(std::string record) {
  auto reader = RecordReader::Open(std::move(record));
  if (!reader) return std::nullopt;
  protocol::TaskExit exit;
  exit.code = static_cast<int>(Signed(reader->Number()));
  exit.signal = static_cast<int>(Signed(reader->Number()));
  const uint64_t flags = reader->Number();
  exit.by_us = (flags & kByUs) != 0;
  exit.permanent = (flags & kPermanent) != 0;
  exit.error = reader->Text();
  exit.out_of_memory = (flags & kOutOfMemory) != 0;
  exit.cpu_time_over = (flags & kCpuTimeOver) != 0;
  exit.lost_bytes = reader->Number();
  exit.peak_bytes = reader->Number();
  exit.ended_ns = Signed(reader->Number());
  return reader->good() ? std::optional(std::move(exit)) : std::nullopt;
}

}  // namespace tfdist::agent
