// The files of a run's folder: spec, pid, exit. What is accepted is the same when it is written
// and read again. Each input is taken as it is, and with the right checksum.
#include <zlib.h>

#include <cassert>
#include <cstdint>
#include <string>

#include "agent/process/run_records.h"

namespace tfdist::agent {
namespace {

std::string Sealed(std::string record) {
  const auto crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(record.data()), record.size()));
  return record.append(reinterpret_cast<const char*>(&crc), sizeof crc);
}

void TrySpec(const std::string& record) {
  const auto spec = DecodeRunSpec(record);
  if (spec) assert(DecodeRunSpec(EncodeRunSpec(*spec)) == spec);
}

void TryPids(const std::string& record) {
  const auto pids = DecodeRunPids(record);
  if (pids) assert(DecodeRunPids(EncodeRunPids(*pids)) == pids);
}

void TryExit(const std::string& record) {
  const auto exit = DecodeRunExit(record);
  if (!exit) return;
  const std::string written = EncodeRunExit(*exit);
  assert(written.size() <= kExitRecordBytes);
  const auto again = DecodeRunExit(written);
  assert(again && exit->error.starts_with(again->error));
  assert(EncodeRunExit(*again) == written);
}

void Run(const std::string& record) {
  TrySpec(record);
  TryPids(record);
  TryExit(record);
}

}  // namespace
}  // namespace tfdist::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string record(reinterpret_cast<const char*>(data), size);
  tfdist::agent::Run(record);
  tfdist::agent::Run(tfdist::agent::Sealed(record));
  return 0;
}
