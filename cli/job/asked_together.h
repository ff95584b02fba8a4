// Hosts that are asked at once.
#pragma once

#include <atomic>

namespace tfdist::cli {

// For any thread. Whether one of them has answered: another one that says nothing is the one to blame, not this machine, nor
// the way to them (ssh::Target::others_answered).
class AskedTogether {
 public:
  void NoteAnswer() { one_has_answered_ = true; }
  [[nodiscard]] bool one_has_answered() const { return one_has_answered_; }

 private:
  std::atomic<bool> one_has_answered_ = false;
};

}  // namespace tfdist::cli
