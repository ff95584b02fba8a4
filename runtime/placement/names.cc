#include "runtime/placement/names.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

constexpr std::string_view kPartitioners =
    "none, fixed:PARTS, min_size:BYTES[:MAX_PARTS] or max_size:BYTES[:MAX_PARTS]";

[[noreturn]] void Unknown(std::string_view what, std::string_view text, std::string_view known) {
  throw Error(Phase::kUsage, fmt::format("{} '{}' is unknown", what, text),
              fmt::format("use {}", known));
}

std::vector<std::string_view> Fields(std::string_view text) {
  std::vector<std::string_view> fields;
  for (size_t colon = text.find(':'); colon != text.npos; colon = text.find(':')) {
    fields.push_back(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  fields.push_back(text);
  return fields;
}

template <typename Number>
Number Positive(std::string_view digits, std::string_view text) {
  Number number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end || number == 0) {
    throw Error(Phase::kUsage,
                fmt::format("partitioner '{}': '{}' is not a number from 1 to {}", text, digits,
                            std::numeric_limits<Number>::max()),
                fmt::format("use {}", kPartitioners));
  }
  return number;
}

}  // namespace

Strategy ParseStrategy(std::string_view text) {
  if (text == "round_robin") return Strategy::kRoundRobin;
  if (text == "greedy") return Strategy::kGreedy;
  Unknown("placement strategy", text, "round_robin or greedy");
}

LookupRule ParseLookupRule(std::string_view text) {
  if (text == "div") return LookupRule::kDiv;
  if (text == "mod") return LookupRule::kMod;
  Unknown("lookup rule", text, "div or mod");
}

Partitioner ParsePartitioner(std::string_view text) {
  const std::vector<std::string_view> fields = Fields(text);
  const std::string_view name = fields.front();
  if (fields.size() == 1 && name == "none") return Unsplit{};
  if (fields.size() == 2 && name == "fixed") {
    return FixedParts{Positive<uint32_t>(fields[1], text)};
  }
  const bool by_size = name == "min_size" || name == "max_size";
  if (!by_size || fields.size() < 2 || fields.size() > 3) {
    Unknown("partitioner", text, kPartitioners);
  }
  const auto bytes = Positive<uint64_t>(fields[1], text);
  std::optional<uint32_t> max_parts;
  if (fields.size() == 3) max_parts = Positive<uint32_t>(fields[2], text);
  if (name == "min_size") return MinPartSize{bytes, max_parts};
  return MaxPartSize{bytes, max_parts};
}

}  // namespace tfdist::runtime
