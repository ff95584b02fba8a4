// The first values of a table's rows. runtime/table.h says what they are a function of.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/table.h"

namespace tfdist::runtime {

// Throws Error(kRun) for numbers that are not finite, or in the wrong order.
void Check(const RowInitializer& initial);

// Fills row after row of `values`, which is as long as the part.
void FillFirstRows(const TablePart& part, std::span<float> values);

}  // namespace tfdist::runtime
