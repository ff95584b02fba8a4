// A job's record on the user's machine. What is accepted comes back when it is written again, and
// each of its tasks has a host.
#include <cassert>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {
namespace {

void Run(std::string_view text) {
  JobRecord record;
  try {
    record = DecodeRecord(text);
  } catch (const Error&) {
    return;
  }
  const std::string written = EncodeRecord(record);
  assert(EncodeRecord(DecodeRecord(written)) == written);
  assert(record.bases.size() == record.hosts.size());
  for (const JobRecord::Task& task : record.tasks) (void)record.hosts.at(task.slot);
  (void)IsJobId(record.id);
  (void)CreatedNanoseconds(record);
  assert(!StateName(record.last_seen).empty() || record.last_seen.result.empty());
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::cli::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
