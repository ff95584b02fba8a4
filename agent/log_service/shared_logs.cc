#include "agent/log_service/shared_logs.h"

#include <fmt/format.h>

#include <condition_variable>
#include <thread>
#include <utility>

#include "agent/log/log_copy.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_annotations.h"

namespace tfdist::agent {
namespace {

// How soon a reader of the copy sees new text.
constexpr std::chrono::milliseconds kGrowthPause{500};
constexpr std::chrono::seconds kErrorPause{10};

// A spare host may run any slot's tasks, and each host has a log of its own.
std::string FileName(const std::string& task, const protocol::HostDescription& description,
                     int slot) {
  const auto at = static_cast<size_t>(slot);
  const bool spare = at < description.slots.size() && description.slots[at].spare;
  return TaskFolderName(task) + (spare ? fmt::format(".h{}.log", slot) : ".log");
}

}  // namespace

// What both threads use. The copying thread keeps it alive.
struct SharedLogs::Shared {
  std::vector<LogCopy> copies;  // of the copying thread

  Mutex mutex;
  std::condition_variable_any changed;
  bool ending GUARDED_BY(mutex) = false;
  bool ended GUARDED_BY(mutex) = false;
  std::string problem GUARDED_BY(mutex);  // why the last pass failed; empty: it did not

  void Run() {
    while (true) {
      const bool last = IsEnding();
      const std::string failure = CopyAll(last ? LogEnd::kClosed : LogEnd::kOpen);
      MutexLock lock(mutex);
      problem = failure;
      if (last) {
        ended = true;
        return;
      }
      const auto pause = failure.empty() ? kGrowthPause : kErrorPause;
      changed.wait_for(mutex, pause, [this]() REQUIRES(mutex) { return ending; });
    }
  }

 private:
  bool IsEnding() {
    MutexLock lock(mutex);
    return ending;
  }

  // A step each in turn: a task that writes without end does not keep the others from theirs, nor
  // does one whose copy fails.
  std::string CopyAll(LogEnd end) {
    std::string failure;
    std::vector<LogCopy*> growing;
    for (LogCopy& copy : copies) growing.push_back(&copy);
    while (!growing.empty()) {
      std::erase_if(growing, [&](LogCopy* copy) {
        try {
          return !copy->Step(end);
        } catch (const Error& e) {
          failure = e.cause();
          return true;
        }
      });
    }
    return failure;
  }
};

SharedLogs::SharedLogs(EventLoop& loop, const SlotFolder& folder, const SlotInfo& info,
                       mode_t umask)
    : folder_(folder), info_(info), umask_(umask), tell_(loop, [this] { Tell(); }) {}

SharedLogs::~SharedLogs() { Finish(); }

void SharedLogs::Begin(const protocol::HostDescription& description) {
  if (description.shared.empty() || shared_) return;
  shared_ = std::make_shared<Shared>();
  for (const protocol::TaskDescription& task : description.tasks) {
    shared_->copies.emplace_back(folder_.TaskFolder(task.task),
                                 CopyTarget{.parent = description.shared,
                                            .folder = info_.job,
                                            .file = FileName(task.task, description, info_.slot),
                                            .umask = umask_});
  }
  // Not joined: it may hang in a system call for as long as the file server does.
  std::thread([shared = shared_] { shared->Run(); }).detach();
  tell_.Start(kTellInterval);
}

void SharedLogs::Finish() {
  if (!shared_) return;
  MutexLock lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
}

bool SharedLogs::busy() const {
  if (!shared_) return false;
  MutexLock lock(shared_->mutex);
  return !shared_->ended;
}

void SharedLogs::Tell() {
  std::string problem;
  {
    MutexLock lock(shared_->mutex);
    problem = shared_->problem;
  }
  if (problem != told_ && !problem.empty()) Log("logs are not copied: {}", problem);
  told_ = std::move(problem);
  tell_.Start(kTellInterval);
}

}  // namespace tfdist::agent
