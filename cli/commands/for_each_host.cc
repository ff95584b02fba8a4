#include "cli/commands/for_each_host.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace tfdist::cli {
namespace {

constexpr size_t kAtATime = 32;

}  // namespace

void ForEachHost(size_t count, const std::function<void(size_t)>& act) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t at = next++; at < count; at = next++) act(at);
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(kAtATime, count)) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Those that there are do it all.
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tfdist::cli
