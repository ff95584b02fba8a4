#include "runtime/update/learning_rate_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>

#include "base/text.h"

namespace tfdist::runtime {
namespace {

using Schedule = LearningRateSchedule;

struct ScheduleName {
  ScheduleKind kind;
  std::string_view name;
  std::vector<std::string_view> fields;  // beside those of the warm-up
  std::vector<std::string_view> needed;
};

const std::vector<ScheduleName>& ScheduleNames() {
  static const std::vector<ScheduleName> names = {
      {ScheduleKind::kConstant, "constant", {}, {}},
      {ScheduleKind::kExponential,
       "exponential",
       {"decay_steps", "decay_rate", "staircase"},
       {"decay_steps", "decay_rate"}},
      {ScheduleKind::kPiecewise, "piecewise", {"boundaries", "values"}, {"boundaries", "values"}},
      {ScheduleKind::kCosine, "cosine", {"decay_steps", "alpha"}, {"decay_steps"}},
  };
  return names;
}

std::vector<std::string_view> FieldsOf(const ScheduleName& name) {
  std::vector<std::string_view> fields = name.fields;
  fields.insert(fields.end(), {"warmup_steps", "warmup_from"});
  return fields;
}

const ScheduleName& NameOf(const Schedule& schedule) {
  return *std::ranges::find(ScheduleNames(), schedule.kind, &ScheduleName::kind);
}

template <typename Number>
void ReadNumber(std::string_view field, std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return;
  throw Error(Phase::kUsage, fmt::format("learning-rate schedule: {} is \"{}\", must be a {}number",
                                         field, text, std::is_integral_v<Number> ? "whole " : ""));
}

template <typename Number>
void ReadNumbers(std::string_view field, std::string_view text, std::vector<Number>& numbers) {
  while (!text.empty()) ReadNumber(field, TakeUpTo('/', text), numbers.emplace_back());
}

void ReadFlag(std::string_view field, std::string_view text, bool& flag) {
  if (text != "true" && text != "false") {
    throw Error(
        Phase::kUsage,
        fmt::format("learning-rate schedule: {} is \"{}\", must be true or false", field, text));
  }
  flag = text == "true";
}

void ReadField(Schedule& schedule, std::string_view field, std::string_view text) {
  if (field == "decay_steps") ReadNumber(field, text, schedule.decay_steps);
  if (field == "decay_rate") ReadNumber(field, text, schedule.decay_rate);
  if (field == "staircase") ReadFlag(field, text, schedule.staircase);
  if (field == "boundaries") ReadNumbers(field, text, schedule.boundaries);
  if (field == "values") ReadNumbers(field, text, schedule.values);
  if (field == "alpha") ReadNumber(field, text, schedule.alpha);
  if (field == "warmup_steps") ReadNumber(field, text, schedule.warmup_steps);
  if (field == "warmup_from") ReadNumber(field, text, schedule.warmup_from);
}

std::string FieldText(const Schedule& schedule, std::string_view field) {
  if (field == "decay_steps") return fmt::format("{}", schedule.decay_steps);
  if (field == "decay_rate") return fmt::format("{}", schedule.decay_rate);
  if (field == "staircase") return fmt::format("{}", schedule.staircase);
  if (field == "boundaries") return fmt::format("{}", fmt::join(schedule.boundaries, "/"));
  if (field == "values") return fmt::format("{}", fmt::join(schedule.values, "/"));
  if (field == "alpha") return fmt::format("{}", schedule.alpha);
  if (field == "warmup_steps") return fmt::format("{}", schedule.warmup_steps);
  return fmt::format("{}", schedule.warmup_from);
}

bool IsAboveZero(float value) { return std::isfinite(value) && value > 0; }
bool IsBelowOne(float value) { return value >= 0 && value < 1; }

double Exponential(const Schedule& schedule, double step) {
  const double exponent = step / static_cast<double>(schedule.decay_steps);
  return std::pow(double{schedule.decay_rate},
                  schedule.staircase ? std::floor(exponent) : exponent);
}

double Cosine(const Schedule& schedule, double step) {
  const double done = std::min(step / static_cast<double>(schedule.decay_steps), 1.0);
  return (1 - schedule.alpha) * (1 + std::cos(std::numbers::pi * done)) / 2 + schedule.alpha;
}

float Piecewise(const Schedule& schedule, uint64_t step) {
  const auto boundary = std::ranges::lower_bound(schedule.boundaries, step);
  return schedule.values[static_cast<size_t>(boundary - schedule.boundaries.begin())];
}

// Behind the warm-up.
double Decayed(const Schedule& schedule, double rate, uint64_t step) {
  const auto at = static_cast<double>(step);
  switch (schedule.kind) {
    case ScheduleKind::kExponential:
      return rate * Exponential(schedule, at);
    case ScheduleKind::kPiecewise:
      return Piecewise(schedule, step);
    case ScheduleKind::kCosine:
      return rate * Cosine(schedule, at);
    case ScheduleKind::kConstant:
      break;
  }
  return rate;
}

}  // namespace

float RateAt(const LearningRateSchedule& schedule, float rate, uint64_t step) {
  if (step >= schedule.warmup_steps) {
    return static_cast<float>(Decayed(schedule, rate, step - schedule.warmup_steps));
  }
  const double share = static_cast<double>(step) / static_cast<double>(schedule.warmup_steps);
  const double first = schedule.warmup_from;
  return static_cast<float>(Decayed(schedule, rate, 0) * (first + (1 - first) * share));
}

void Check(const LearningRateSchedule& schedule, Phase phase) {
  const auto expect = [&](bool good, std::string_view what) {
    if (!good) {
      throw Error(phase, fmt::format("learning-rate schedule {}: {}", NameOf(schedule).name, what));
    }
  };
  const bool decays =
      schedule.kind == ScheduleKind::kExponential || schedule.kind == ScheduleKind::kCosine;
  expect(!decays || schedule.decay_steps > 0, "decay_steps must be above 0");
  expect(schedule.kind != ScheduleKind::kExponential || IsAboveZero(schedule.decay_rate),
         "decay_rate must be above 0");
  expect(IsBelowOne(schedule.alpha), "alpha must be at least 0 and below 1");
  expect(IsBelowOne(schedule.warmup_from), "warmup_from must be at least 0 and below 1");
  if (schedule.kind != ScheduleKind::kPiecewise) return;
  expect(schedule.values.size() == schedule.boundaries.size() + 1,
         "values must be one more than boundaries");
  expect(std::ranges::adjacent_find(schedule.boundaries, std::greater_equal<>()) ==
             schedule.boundaries.end(),
         "boundaries must rise");
  expect(std::ranges::all_of(schedule.values, IsAboveZero), "values must be above 0");
}

LearningRateSchedule ParseSchedule(std::string_view text) {
  std::string_view rest = text;
  const std::string_view name = TakeUpTo(':', rest);
  const auto known = std::ranges::find(ScheduleNames(), name, &ScheduleName::name);
  if (known == ScheduleNames().end()) {
    throw Error(Phase::kUsage,
                fmt::format("learning-rate schedule: no \"{}\", there are constant, exponential, "
                            "piecewise, cosine",
                            name),
                "write it as exponential:decay_steps=1000,decay_rate=0.96");
  }
  LearningRateSchedule schedule;
  schedule.kind = known->kind;
  std::set<std::string_view> given;
  while (!rest.empty()) {
    std::string_view value = TakeUpTo(',', rest);
    const std::string_view field = TakeUpTo('=', value);
    const std::vector<std::string_view> fields = FieldsOf(*known);
    if (std::ranges::find(fields, field) == fields.end()) {
      throw Error(Phase::kUsage,
                  fmt::format("learning-rate schedule {}: no field \"{}\", there are {}",
                              known->name, field, fmt::join(fields, ", ")));
    }
    if (!given.insert(field).second) {
      throw Error(Phase::kUsage,
                  fmt::format("learning-rate schedule {}: {} is given twice", known->name, field));
    }
    ReadField(schedule, field, value);
  }
  for (const std::string_view field : known->needed) {
    if (given.contains(field)) continue;
    throw Error(Phase::kUsage,
                fmt::format("learning-rate schedule {}: {} is missing", known->name, field));
  }
  Check(schedule, Phase::kUsage);
  return schedule;
}

std::string ToString(const LearningRateSchedule& schedule) {
  const ScheduleName& name = NameOf(schedule);
  std::string text(name.name);
  char separator = ':';
  for (const std::string_view field : FieldsOf(name)) {
    text += fmt::format("{}{}={}", separator, field, FieldText(schedule, field));
    separator = ',';
  }
  return text;
}

}  // namespace tfdist::runtime
