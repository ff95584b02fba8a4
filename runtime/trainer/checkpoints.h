// The chief's part in checkpoints: when one is made, what makes it whole, which ones are kept, and
// which one a job goes on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/client.h"
#include "runtime/common/say.h"
#include "runtime/trainer/training_options.h"

namespace tfdist::runtime {

// One thread. Borrows what it is made with. A checkpoint that fails is said, and training goes on
// without it, until too many have failed in a row: then AfterStep and End throw Error(kFiles).
class Checkpoints {
 public:
  Checkpoints(const CheckpointOptions& options, Client& client, const Say& say)
      : options_(options), client_(client), say_(say) {}

  // Creates the variables: with the values of the newest checkpoint that is whole, or those given.
  // Throws what Client::Restore throws.
  void Begin(const Tensors& initial, const OptimizerSpec& optimizer, const UpdateMode& update);

  // To be called after every step: begins a checkpoint when one is due, and makes it whole when the
  // servers have written it.
  void AfterStep(uint64_t step);
  // Makes the last checkpoint, and waits for it.
  void End(uint64_t step);

 private:
  [[nodiscard]] bool IsDue(uint64_t step, TimePoint now) const;
  void Start(uint64_t step);
  void Finish(const Saved& saved);
  void Commit(const SaveSpec& asked, const Saved& saved);
  void Miss(uint64_t step, const Error& error);
  void NoteProgress(uint64_t step, TimePoint now);
  [[nodiscard]] std::vector<RestoreSpec> Candidates() const;
  void MakeFolder() const;
  void SayWhereItGoesOn(const RestoreSpec& from) const;
  void SayIfItBeganAnew(uint64_t first_step) const;

  const CheckpointOptions& options_;
  Client& client_;
  const Say& say_;
  std::optional<uint64_t> reached_;  // step that an earlier attempt has noted
  uint64_t last_step_ = 0;  // that a checkpoint was begun at, or that training was begun with
  TimePoint last_time_ = SystemClock().Now();
  TimePoint begun_{};
  TimePoint next_note_{};
  std::optional<SaveSpec> saving_;
  size_t misses_ = 0;    // since the last whole checkpoint
  bool ending_ = false;  // training is over: this is the last one
};

}  // namespace tfdist::runtime
