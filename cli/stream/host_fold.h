// Names of many hosts, and the errors of many hosts, in few lines.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace tfdist::cli {

// "gpu[001-198], head": names that differ in their last number alone are folded, in the form that
// cluster files and -H take. The order is that of first appearance.
std::string FoldHosts(const std::vector<std::string>& names);

// Errors that are told as one.
struct FoldedError {
  std::vector<Error> all;  // the first is printed
  std::string
      elsewhere;  // of the others: "the same on 2 more hosts: gpu[2-3] (worker:[1-2])"; empty: none are
};

// Folds errors that differ only in the host and its tasks; of more than three kinds that differ only in numbers, as ports and
// sizes, these too. The order is that of first appearance.
std::vector<FoldedError> FoldErrors(const std::vector<Error>& errors);

}  // namespace tfdist::cli
