#include "agent/loop/file_thread.h"

namespace tfdist::agent {

FileThread::FileThread(EventLoop& loop) : loop_(loop), thread_([this] { Run(); }) {}

FileThread::~FileThread() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void FileThread::Enqueue(std::function<Completion()> work) {
  {
    const MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

std::function<FileThread::Completion()> FileThread::Next() {
  const MutexLock lock(mutex_);
  while (queue_.empty() && !ending_) changed_.wait(mutex_);
  if (queue_.empty()) return nullptr;
  auto work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

void FileThread::Run() {
  while (auto work = Next()) loop_.Post(work());
}

}  // namespace tfdist::agent
