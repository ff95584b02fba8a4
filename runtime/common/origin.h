// Where a part of a variable belongs: what lets another number of servers take it over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tfdist::runtime {

struct Origin {
  std::string whole;            // name of the variable
  std::vector<uint32_t> shape;  // of all of it
  uint64_t first = 0;           // its float that the part begins with

  bool operator==(const Origin&) const = default;
};

}  // namespace tfdist::runtime
