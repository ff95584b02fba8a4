// Answers that are held back until a push of the same trainer may go on: what was asked for. Knows
// no sockets and takes the time from its caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

// What an answer has to give.
struct WantedPart {
  Operation operation = Operation::kExchange;  // or kRows
  PartHeader part;
  std::vector<uint32_t> rows;  // kRows: that are pulled, table after table; part.rows pushes none
};

class HeldAnswers {
 public:
  // Throws Error(kRun) when as many are held as a trainer may have under way.
  void ExpectRoom(const std::string& task) const;
  // Holds the answer until push `awaited` of the trainer may go on. Throws as ExpectRoom.
  void Hold(const std::string& task, uint64_t awaited, WantedPart wanted, TimePoint now);
  // Those that await this push of the trainer or an earlier one, in the order of their coming.
  std::vector<WantedPart> Release(const std::string& task, uint64_t sequence, TimePoint now);
  // Those that await this push of the trainer, which will never be whole.
  std::vector<WantedPart> ReleaseOf(const std::string& task, uint64_t sequence, TimePoint now);
  // The trainer sends its requests again, or is gone.
  void Drop(const std::string& task, TimePoint now);

  [[nodiscard]] bool empty() const { return held_.empty(); }
  [[nodiscard]] size_t count() const { return count_; }  // all trainers' together
  [[nodiscard]] bool Holds(const std::string& task) const { return held_.contains(task); }
  // All trainers' together, of answers that are held no more.
  [[nodiscard]] double held_seconds() const { return held_seconds_; }

 private:
  struct Held {
    uint64_t awaited = 0;
    WantedPart wanted;
  };
  struct OfTrainer {
    std::vector<Held> answers;
    TimePoint since;
  };
  template <typename Awaits>
  std::vector<WantedPart> ReleaseWhere(const std::string& task, TimePoint now, Awaits awaits);
  void End(std::map<std::string, OfTrainer>::iterator trainer, TimePoint now);

  std::map<std::string, OfTrainer> held_;  // by task; none is empty
  size_t count_ = 0;
  double held_seconds_ = 0;
};

}  // namespace tfdist::runtime
