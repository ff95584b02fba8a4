// Placement as it is written on a command line. Every function throws Error(kUsage), which lists
// what there is, when it does not know `text`.
#pragma once

#include <string_view>

#include "runtime/placement/partitioner.h"
#include "runtime/placement/placement.h"
#include "runtime/placement/row_map.h"

namespace tfdist::runtime {

// round_robin, greedy
Strategy ParseStrategy(std::string_view text);

// div, mod
LookupRule ParseLookupRule(std::string_view text);

// none               in one part
// fixed:4            in 4 parts
// min_size:262144    in parts of about 256 KiB, as many as there are servers at most
// min_size:262144:8  the same, 8 at most
// max_size:67108864  in parts of 64 MiB at most; max_size:67108864:8 in 8 of them at most
Partitioner ParsePartitioner(std::string_view text);

}  // namespace tfdist::runtime
