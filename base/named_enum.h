// Enumerations whose values have names on the wire: a table of pairs, looked up both ways.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/failures.h"

namespace tfdist::protocol {

template <typename E, size_t N>
using EnumNames = std::array<std::pair<E, std::string_view>, N>;

// Throws Bug when the table lacks the value.
template <typename E, size_t N>
std::string_view NameIn(const EnumNames<E, N>& names, E value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  throw Bug("an enumeration's value has no name");
}

// Throws ProtocolError when no value has that name.
template <typename E, size_t N>
E ValueIn(const EnumNames<E, N>& names, const nlohmann::json& name) {
  const auto& text = name.get_ref<const std::string&>();
  for (const auto& [value, known] : names) {
    if (known == text) return value;
  }
  throw ProtocolError(Phase::kControl, fmt::format("unknown value '{}'", text));
}

}  // namespace tfdist::protocol
