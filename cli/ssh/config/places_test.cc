#include "cli/ssh/config/places.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tfdist::ssh {
namespace {

TEST(Places, LetsNoMoreInThanThereArePlaces) {
  Places places;
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&, name = i % 2 == 0 ? "even" : "odd"] {
      TimePoint deadline{};
      const auto place = places.Take(name, 3, deadline);
      const int now = ++inside;
      int seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::yield();
      --inside;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 6);
  EXPECT_GE(most, 1);
}

}  // namespace
}  // namespace tfdist::ssh
