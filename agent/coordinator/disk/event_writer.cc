#include "agent/coordinator/disk/event_writer.h"

#include "base/error.h"

namespace tfdist::agent {
namespace {

// An end with a census of each of a thousand hosts, and what waits before it.
constexpr size_t kReserveBytes = 1024 * 1024;

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& journal, const std::filesystem::path& reserve,
                         const JournalContent& content)
    : journal_(journal, content), reserve_(reserve, kReserveBytes) {}

void EventWriter::Write(std::string_view lines, bool sync, Urgency urgency) {
  waiting_ += lines;
  sync_waits_ = sync_waits_ || sync;
  if (waiting_.empty()) return;
  try {
    journal_.Append(waiting_, sync_waits_);
  } catch (const Error&) {
    if (urgency != Urgency::kJobsEnd || !reserve_.Release()) throw;
    journal_.Append(waiting_, sync_waits_);
  }
  waiting_.clear();
  sync_waits_ = false;
}

bool EventWriter::Replace(uint64_t begin, uint64_t end, std::string_view instead) {
  if (!waiting_.empty()) return false;
  journal_.Replace(begin, end, instead);
  return true;
}

void EventWriter::WriteOrForget(std::string_view lines) { journal_.Append(lines, true); }

}  // namespace tfdist::agent
