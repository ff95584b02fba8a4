#include "agent/loop/file_thread.h"

namespace tfdist::agent {

FileThread::FileThread(EventLoop& loop) : loop_(loop), thread_([this] { Run(); }) {}

FileThread::~FileThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void FileThread::Enqueue(std::function<Completion()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void FileThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    loop_.Post(work());
    lock.lock();
  }
}

}  // namespace tfdist::agent
