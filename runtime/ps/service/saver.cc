#include "runtime/ps/service/saver.h"

#include <sys/eventfd.h>

#include <exception>
#include <utility>

#include "base/error.h"
#include "runtime/checkpoint/manifest.h"

namespace tfdist::runtime {
namespace {

ShardFacts WriteOwn(const std::filesystem::path& folder, const CheckpointPart& asked,
                    const ShardInfo& info, std::vector<TensorSource> tensors,
                    const std::stop_token& stop) {
  RemoveOthersBefore(folder, asked.number, asked.kept);
  const std::filesystem::path checkpoint = folder / CheckpointName(asked.number);
  MakeCheckpoint(checkpoint);
  return WriteShard(checkpoint / ShardName(asked.shard, asked.of), info, std::move(tensors), stop);
}

}  // namespace

Saver::Saver(std::filesystem::path folder)
    : folder_(std::move(folder)), ended_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!ended_.valid()) throw Error(Phase::kInternal, "no descriptor for a checkpoint's end");
}

Saver::~Saver() = default;

void Saver::Start(CheckpointPart asked, ShardInfo info, std::vector<TensorSource> tensors) {
  id_ = asked.id;
  Result result{std::move(asked), info.step, {}, {}};
  thread_ = std::jthread([this, result = std::move(result), info = std::move(info),
                          tensors = std::move(tensors)](const std::stop_token& stop) mutable {
    Write(stop, std::move(result), info, std::move(tensors));
  });
}

void Saver::Write(const std::stop_token& stop, Result result, const ShardInfo& info,
                  std::vector<TensorSource> tensors) {
  try {
    result.facts = WriteOwn(folder_, result.asked, info, std::move(tensors), stop);
  } catch (const Error& error) {
    result.failure = error.cause();
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  const MutexLock lock(mutex_);
  result_ = std::move(result);
  eventfd_write(ended_.get(), 1);
}

std::optional<Saver::Result> Saver::Take() {
  eventfd_t count = 0;
  if (!busy() || eventfd_read(ended_.get(), &count) != 0) return std::nullopt;
  thread_.join();
  const MutexLock lock(mutex_);
  return std::exchange(result_, std::nullopt);
}

}  // namespace tfdist::runtime
