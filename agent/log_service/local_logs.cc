#include "agent/log_service/local_logs.h"

#include <fmt/format.h>

#include <utility>

#include "wire/refusal.h"

namespace tfdist::agent {

LocalLogs::LocalLogs(EventLoop& loop, FileThread& files, const SlotFolder& folder,
                     const HostTasks& tasks, std::function<bool()> over)
    : loop_(loop), files_(files), folder_(folder), tasks_(tasks), over_(std::move(over)) {}

FileThread& LocalLogs::ThreadFor(const protocol::ReadLog& request) {
  if (request.grep.empty()) return files_;
  if (!searching_) searching_.emplace(loop_);
  return *searching_;
}

std::unique_ptr<Stream> LocalLogs::Open(uint64_t id, const protocol::ReadLog& request,
                                        LogStream::Sink sink) {
  if (!tasks_.Has(request.task)) {
    throw protocol::Refusal(protocol::RefusalKind::kWrongHost, Phase::kLogs,
                            fmt::format("this host has no task '{}'", request.task));
  }
  LogStream::Source source{.task_folder = folder_.TaskFolder(request.task),
                           .closed = [this, task = request.task] { return tasks_.LogClosed(task); },
                           .over = over_,
                           .slot_folder = folder_.path()};
  return std::make_unique<LogStream>(loop_, ThreadFor(request), id, request, std::move(source),
                                     std::move(sink));
}

}  // namespace tfdist::agent
