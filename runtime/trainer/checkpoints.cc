#include "runtime/trainer/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "base/error.h"
#include "runtime/checkpoint/manifest.h"

namespace tfdist::runtime {
namespace {

using std::chrono::duration;

// How old the step on disk may be that a restarted job counts its lost steps from.
constexpr std::chrono::milliseconds kNoteInterval{100};

uint64_t RandomId() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

RestoreSpec SpecOf(const std::filesystem::path& checkpoint, const Manifest& manifest,
                   bool values_only) {
  return {checkpoint.string(), manifest.number, manifest.step, manifest.shards, values_only};
}

std::string SizeText(uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return bytes < 1'000'000 ? fmt::format("{:.1f} kB", size / 1e3)
                           : fmt::format("{:.1f} MB", size / 1e6);
}

std::string LostSteps(uint64_t step, std::optional<uint64_t> reached) {
  if (!reached) return "how many steps are lost is not known";  // a power cut may take the note
  if (*reached <= step) return "no step is lost";
  return fmt::format("the job had reached step {}, {} steps are lost", *reached, *reached - step);
}

}  // namespace

void Checkpoints::Begin(const Tensors& initial, const OptimizerSpec& optimizer,
                        const UpdateMode& update) {
  MakeFolder();
  reached_ = ReadProgress(options_.folder);
  const std::vector<RestoreSpec> candidates = Candidates();
  const auto used = client_.Restore(candidates, initial, optimizer, update);
  if (!used) return;
  if (!candidates[*used].values_only) last_step_ = candidates[*used].step;
  SayWhereItGoesOn(candidates[*used]);
}

// So that the step is noted from the first one on. Where it cannot be made, the first checkpoint says why.
void Checkpoints::MakeFolder() const {
  if (options_.folder.empty()) return;
  try {
    MakeCheckpoint(options_.folder);
  } catch (const Error&) {
  }
}

// Without one in the job's own folder a new model may begin with values of another job's.
std::vector<RestoreSpec> Checkpoints::Candidates() const {
  std::vector<RestoreSpec> candidates;
  if (options_.folder.empty() && options_.first_values.empty()) return candidates;
  std::string damage;
  const auto add = [&](const std::filesystem::path& checkpoint, bool values_only) {
    try {
      candidates.push_back(SpecOf(checkpoint, ReadManifest(checkpoint), values_only));
    } catch (const Error& error) {
      damage = error.cause();
      say_(fmt::format("{} is not used: {}", checkpoint.string(), damage));
    }
  };
  for (const uint64_t number : CheckpointsIn(options_.folder)) {
    add(options_.folder / CheckpointName(number), false);
  }
  if (candidates.empty() && damage.empty() && !options_.first_values.empty()) {
    add(NewestIn(options_.first_values), true);
  }
  if (candidates.empty() && !damage.empty()) {
    throw Error(Phase::kFiles, "no checkpoint is whole: " + damage,
                "another --checkpoint-dir begins anew");
  }
  return candidates;
}

void Checkpoints::SayWhereItGoesOn(const RestoreSpec& from) const {
  if (from.values_only) {
    say_(fmt::format("begins with the values of {}", from.name));
  } else {
    say_(fmt::format("goes on at step {}, from {}: {}", from.step, from.name,
                     LostSteps(from.step, reached_)));
  }
}

void Checkpoints::AfterStep(uint64_t step) {
  if (options_.folder.empty()) return;
  if (saving_) {
    if (const auto saved = client_.TakeSaved()) Finish(*saved);
  }
  if (last_step_ == 0) SayIfItBeganAnew(step);
  const auto now = SystemClock().Now();
  NoteProgress(step, now);
  if (last_step_ == 0) last_step_ = step;
  if (!saving_ && IsDue(step, now)) Start(step);
}

// A chief that came back alone finds the others at the step that it had reached, or further.
void Checkpoints::SayIfItBeganAnew(uint64_t first_step) const {
  if (!reached_ || *reached_ <= first_step) return;
  say_(fmt::format("begins anew, as there is no checkpoint: {}", LostSteps(0, reached_)));
}

bool Checkpoints::IsDue(uint64_t step, TimePoint now) const {
  if (options_.steps > 0) return step / options_.steps > last_step_ / options_.steps;
  return now - last_time_ >= options_.interval;
}

void Checkpoints::NoteProgress(uint64_t step, TimePoint now) {
  if (now < next_note_) return;
  next_note_ = now + kNoteInterval;
  WriteProgress(options_.folder, step);
}

void Checkpoints::End(uint64_t step) {
  if (options_.folder.empty()) return;
  if (saving_) Finish(client_.WaitForSave());
  ending_ = true;
  if (step != last_step_ || misses_ > 0) Start(step);
  if (saving_) Finish(client_.WaitForSave());
  WriteProgress(options_.folder, step);
}

void Checkpoints::Start(uint64_t step) {
  last_step_ = step;
  last_time_ = begun_ = SystemClock().Now();
  const std::filesystem::path checkpoint = options_.folder / CheckpointName(step);
  try {
    std::vector<uint64_t> kept = CheckpointsIn(options_.folder);
    std::erase_if(kept, [&](uint64_t number) { return number >= step; });
    kept.resize(std::min(kept.size(), options_.keep));
    MakeCheckpoint(checkpoint);
    RemoveManifest(checkpoint);
    saving_ = SaveSpec{step, RandomId(), std::move(kept)};
  } catch (const Error& error) {
    Miss(step, error);
    return;
  }
  client_.StartSave(*saving_);
}

void Checkpoints::Finish(const Saved& saved) {
  const SaveSpec ended = *std::exchange(saving_, std::nullopt);
  try {
    if (saved.failure) throw Error(Phase::kFiles, saved.failure->cause());
    Commit(ended, saved);
    misses_ = 0;
  } catch (const Error& error) {
    Miss(ended.number, error);
  }
}

// Training that can lose more and more steps is not what its user asked for; nor is one whose
// result is lost.
void Checkpoints::Miss(uint64_t step, const Error& error) {
  const std::string missed = fmt::format("no checkpoint at step {}: {}", step, error.cause());
  ++misses_;
  if (ending_ && options_.misses > 0) {
    throw Error(Phase::kFiles, missed + "; it was the last one, of the trained model",
                "room and a healthy disk for " + options_.folder.string() +
                    "; then start the job again: it goes on from the newest whole checkpoint");
  }
  if (misses_ != options_.misses) {
    say_("warning: " + missed + (ending_ ? "; it was the last one" : "; training goes on"));
    return;
  }
  throw Error(Phase::kFiles,
              fmt::format("{}; {} in a row have failed now (--checkpoint-misses)", missed, misses_),
              "room and a healthy disk for " + options_.folder.string() +
                  "; then start the job again: it goes on from the newest whole checkpoint");
}

void Checkpoints::Commit(const SaveSpec& asked, const Saved& saved) {
  const std::filesystem::path checkpoint = options_.folder / CheckpointName(asked.number);
  WriteManifest(checkpoint, {asked.number, asked.id, saved.step, saved.shards});
  uint64_t bytes = 0;
  for (const ShardFacts& shard : saved.shards) bytes += shard.bytes;
  say_(fmt::format("checkpoint {}: step {}, {} in {:.2f} s", checkpoint.string(), saved.step,
                   SizeText(bytes), duration<double>(SystemClock().Now() - begun_).count()));
  std::vector<uint64_t> kept = asked.kept;
  kept.resize(std::min(kept.size(), options_.keep - 1));
  RemoveOthersBefore(options_.folder, asked.number, kept);
}

}  // namespace tfdist::runtime
