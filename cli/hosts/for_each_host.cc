#include "cli/hosts/for_each_host.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

namespace tfdist::cli {
namespace {

constexpr size_t kAtATime = 32;

std::optional<Error> FailureOf(const std::function<void(size_t)>& act, size_t at) {
  try {
    act(at);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& e) {
    return Error(Phase::kInternal, e.what());
  }
}

}  // namespace

std::vector<std::optional<Error>> ForEachHost(size_t count,
                                              const std::function<void(size_t)>& act) {
  std::vector<std::optional<Error>> failures(count);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t at = next++; at < count; at = next++) failures[at] = FailureOf(act, at);
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(kAtATime, count)) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Those that there are do it all.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return failures;
}

}  // namespace tfdist::cli
