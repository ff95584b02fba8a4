// Conversations with a job's hosts one after the other, without slot 0 in between.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <string>

#include "base/clock.h"
#include "cli/job/connector.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

class HostLinks {
 public:
  // `record` is borrowed.
  explicit HostLinks(const JobRecord& record) : record_(record) {}

  // As cli::Attach. A host that did not answer is not asked again: throws what it threw then, for each slot of a machine that
  // nobody can log in to.
  Attached Attach(int slot, TimePoint& deadline, std::function<bool()> is_off = {});
  // The same; the answer is kept until another slot is asked for, or until Drop.
  Attached& To(int slot, TimePoint& deadline);
  // Asks on a thread, and waits for 2 s the first time. False: the host needs longer, and others may be read meanwhile.
  bool AnswersSoon(int slot, TimePoint deadline);
  // Some host has answered, to whomever.
  void NoteAnswer() { together_.NoteAnswer(); }
  // The conversation that is kept has broken.
  void Drop() { slot_ = kNone; }
  // True once for each: several followers print it once.
  [[nodiscard]] bool IsNewRemedy(const std::string& remedy) {
    return remedies_.insert(remedy).second;
  }

 private:
  static constexpr int kNone = -1;

  Attached Ask(int slot, TimePoint& deadline, std::function<bool()> is_off);
  Attached TakeBegun(int slot);
  [[nodiscard]] bool AreOneMachine(int slot, int other) const;
  [[nodiscard]] std::exception_ptr WhyOff(int slot) const;
  [[nodiscard]] bool IsAwaited(int slot) const;

  struct Off {
    std::exception_ptr why;
    bool is_of_machine = false;
  };

  const JobRecord& record_;
  std::map<int, Off> off_;
  std::set<std::string> remedies_;
  int slot_ = kNone;
  Attached attached_;  // to `slot_`
  AskedTogether together_;
  std::map<int, std::future<Attached>> begun_;  // last: its threads use the others
};

}  // namespace tfdist::cli
