// Where a program's own lines go: `main` hands over standard output, a test a list.
#pragma once

#include <functional>
#include <string>

namespace tfdist::runtime {

using Say = std::function<void(const std::string& line)>;

}  // namespace tfdist::runtime
