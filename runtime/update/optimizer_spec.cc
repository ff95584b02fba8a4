#include "runtime/update/optimizer_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <span>
#include <variant>
#include <vector>

#include "base/text.h"

namespace tfdist::runtime {
namespace {

enum class Allowed { kAboveZero, kBelowOne, kTrueOrFalse };

struct Field {
  std::string_view name;
  std::variant<float OptimizerSpec::*, bool OptimizerSpec::*> member;
  Allowed allowed;
};

struct Kind {
  OptimizerKind kind;
  std::string_view name;
  std::vector<Field> fields;
};

const std::vector<Kind>& Kinds() {
  using Spec = OptimizerSpec;
  static const Field rate = {"learning_rate", &Spec::learning_rate, Allowed::kAboveZero};
  static const std::vector<Kind> kinds = {
      {OptimizerKind::kSgd, "sgd", {rate}},
      {OptimizerKind::kMomentum,
       "momentum",
       {rate,
        {"momentum", &Spec::momentum, Allowed::kBelowOne},
        {"use_nesterov", &Spec::use_nesterov, Allowed::kTrueOrFalse}}},
      {OptimizerKind::kAdagrad,
       "adagrad",
       {rate,
        {"initial_accumulator_value", &Spec::initial_accumulator_value, Allowed::kAboveZero}}},
      {OptimizerKind::kAdam,
       "adam",
       {rate,
        {"beta1", &Spec::beta1, Allowed::kBelowOne},
        {"beta2", &Spec::beta2, Allowed::kBelowOne},
        {"epsilon", &Spec::epsilon, Allowed::kAboveZero},
        {"lazy", &Spec::lazy, Allowed::kTrueOrFalse}}},
  };
  return kinds;
}

// "a, b, c"
template <typename Items>
std::string Names(const Items& items) {
  std::string names;
  for (const auto& item : items) {
    if (!names.empty()) names += ", ";
    names += item.name;
  }
  return names;
}

const Kind& KindOf(const OptimizerSpec& spec, Phase phase) {
  const auto found = std::find_if(Kinds().begin(), Kinds().end(),
                                  [&](const Kind& kind) { return kind.kind == spec.kind; });
  if (found == Kinds().end()) {  // a number from a peer's message
    throw Error(phase,
                fmt::format("optimizer: no kind has the number {}", static_cast<int>(spec.kind)));
  }
  return *found;
}

void SetField(OptimizerSpec& spec, const Field& field, std::string_view value,
              std::string_view kind_name) {
  if (const auto* flag = std::get_if<bool OptimizerSpec::*>(&field.member)) {
    if (value != "true" && value != "false") {
      throw Error(Phase::kUsage, fmt::format("{}: {} is \"{}\", must be true or false", kind_name,
                                             field.name, value));
    }
    spec.*(*flag) = value == "true";
    return;
  }
  float number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    throw Error(Phase::kUsage,
                fmt::format("{}: {} is \"{}\", must be a number", kind_name, field.name, value));
  }
  spec.*std::get<float OptimizerSpec::*>(field.member) = number;
}

}  // namespace

void Check(const OptimizerSpec& spec, Phase phase) {
  const Kind& kind = KindOf(spec, phase);
  Check(spec.schedule, phase);
  for (const Field& field : kind.fields) {
    const auto* member = std::get_if<float OptimizerSpec::*>(&field.member);
    if (member == nullptr) continue;
    const float value = spec.*(*member);
    const bool above_zero = field.allowed == Allowed::kAboveZero;
    const bool good = std::isfinite(value) && (above_zero ? value > 0 : value >= 0 && value < 1);
    if (!good) {
      throw Error(phase, fmt::format("{}: {} is {}, must be {}", kind.name, field.name, value,
                                     above_zero ? "above 0" : "at least 0 and below 1"));
    }
  }
}

OptimizerSpec ParseOptimizer(std::string_view text) {
  std::string_view schedule = text;
  std::string_view rest = TakeUpTo(' ', schedule);
  const std::string_view name = TakeUpTo(':', rest);
  const auto kind = std::find_if(Kinds().begin(), Kinds().end(),
                                 [&](const Kind& candidate) { return candidate.name == name; });
  if (kind == Kinds().end()) {
    throw Error(Phase::kUsage,
                fmt::format("optimizer: no \"{}\", there are {}", name, Names(Kinds())),
                "write it as adam:learning_rate=0.001");
  }
  OptimizerSpec spec;
  spec.kind = kind->kind;
  std::set<std::string_view> given;
  while (!rest.empty()) {
    std::string_view value = TakeUpTo(',', rest);
    const std::string_view field_name = TakeUpTo('=', value);
    const auto field =
        std::find_if(kind->fields.begin(), kind->fields.end(),
                     [&](const Field& candidate) { return candidate.name == field_name; });
    if (field == kind->fields.end()) {
      throw Error(Phase::kUsage, fmt::format("{}: no field \"{}\", there are {}", kind->name,
                                             field_name, Names(kind->fields)));
    }
    if (!given.insert(field_name).second) {
      throw Error(Phase::kUsage, fmt::format("{}: {} is given twice", kind->name, field_name));
    }
    SetField(spec, *field, value, kind->name);
  }
  if (!given.contains("learning_rate")) {
    throw Error(Phase::kUsage, fmt::format("{}: learning_rate is missing", kind->name),
                fmt::format("{}:learning_rate=0.01", kind->name));
  }
  if (!schedule.empty()) spec.schedule = ParseSchedule(schedule);
  Check(spec, Phase::kUsage);
  return spec;
}

std::string ToString(const OptimizerSpec& spec) {
  const Kind& kind = KindOf(spec, Phase::kInternal);
  std::string text(kind.name);
  char separator = ':';
  for (const Field& field : kind.fields) {
    text += std::visit(
        [&](auto member) { return fmt::format("{}{}={}", separator, field.name, spec.*member); },
        field.member);
    separator = ',';
  }
  if (spec.schedule != LearningRateSchedule()) text += " " + ToString(spec.schedule);
  return text;
}

}  // namespace tfdist::runtime
