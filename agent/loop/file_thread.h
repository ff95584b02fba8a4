// The agent's second thread: everything that touches a disk, which may hang. Jobs
// run one after the other, in the order given; what to do with their results runs on the loop.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "agent/loop/event_loop.h"
#include "base/thread_annotations.h"

namespace tfdist::agent {

// What a job came to: its value, or what it threw.
template <typename T>
class Outcome {
 public:
  explicit Outcome(T value) : value_(std::move(value)) {}
  explicit Outcome(std::exception_ptr error) : error_(std::move(error)) {}
  // The value; throws what the job threw.
  T& Get() {
    if (error_) std::rethrow_exception(error_);
    return *value_;
  }

 private:
  std::optional<T> value_;
  std::exception_ptr error_;
};

template <>
class Outcome<void> {
 public:
  explicit Outcome(std::exception_ptr error = nullptr) : error_(std::move(error)) {}
  void Get() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

class FileThread {
 public:
  explicit FileThread(EventLoop& loop);
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;
  // Runs the jobs that are queued, then ends. Their completions are dropped with the loop.
  ~FileThread();

  // Runs `job()` on the file thread, then `done(Outcome)` on the loop's. What `job` captures
  // belongs to the file thread until then; what `done` captures must live as long as the loop runs.
  template <typename Job, typename Done>
  void Post(Job job, Done done) {
    Enqueue([job = std::move(job), done = std::move(done)]() mutable -> std::function<void()> {
      using T = std::invoke_result_t<Job&>;
      auto outcome = std::make_shared<Outcome<T>>(RunJob<T>(job));
      return [outcome, done = std::move(done)]() mutable { done(*outcome); };
    });
  }

 private:
  using Completion = std::function<void()>;

  template <typename T, typename Job>
  static Outcome<T> RunJob(Job& job) {
    try {
      if constexpr (std::is_void_v<T>) {
        job();
        return Outcome<void>();
      } else {
        return Outcome<T>(job());
      }
    } catch (...) {
      return Outcome<T>(std::current_exception());
    }
  }

  void Enqueue(std::function<Completion()> work);
  // Waits for work; nullptr: there is none and will be none.
  std::function<Completion()> Next();
  void Run();

  EventLoop& loop_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<Completion()>> queue_ GUARDED_BY(mutex_);
  bool ending_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tfdist::agent
