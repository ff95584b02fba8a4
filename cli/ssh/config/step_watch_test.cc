#include "cli/ssh/config/step_watch.h"

#include <gtest/gtest.h>

#include <future>

namespace tfdist::ssh {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 20ms;
constexpr auto kLong = 60s;

TimePoint In(std::chrono::milliseconds time) { return SystemClock().Now() + time; }

TEST(StepWatch, NamesTheStepThatTakesLong) {
  std::promise<std::string> said;
  StepWatch watch([&](const std::string& text) { said.set_value(text); }, kPatience);
  watch.Begin("waits for a shell", In(120s));
  EXPECT_EQ(said.get_future().get(), "waits for a shell, up to 120 s more");
}

TEST(StepWatch, SaysNothingOfAStepThatIsOverOrHasNoWords) {
  bool said = false;
  StepWatch quick([&](const std::string& /*text*/) { said = true; }, 3600s);
  quick.Begin("waits for a TCP connection", In(kLong));
  quick.Begin("", {});
  StepWatch ended([&](const std::string& /*text*/) { said = true; }, kPatience);
  ended.Begin("waits for a TCP connection", In(kLong));
  ended.End();
  std::promise<void> later;
  StepWatch last([&](const std::string& /*text*/) { later.set_value(); }, 2 * kPatience);
  last.Begin("waits for a shell", In(kLong));
  later.get_future().get();
  EXPECT_FALSE(said);
}

TEST(StepWatch, SaysTheNextStepAsWell) {
  std::promise<void> first;
  std::promise<std::string> second;
  int count = 0;
  StepWatch watch(
      [&](const std::string& text) { ++count == 1 ? first.set_value() : second.set_value(text); },
      kPatience);
  watch.Begin("waits for a TCP connection", In(kLong));
  first.get_future().get();
  watch.Begin("waits for a TCP connection", In(kLong));  // tried again: it is known already
  watch.Begin("waits for a shell", In(kLong));
  EXPECT_EQ(second.get_future().get(), "waits for a shell, up to 60 s more");
}

}  // namespace
}  // namespace tfdist::ssh
