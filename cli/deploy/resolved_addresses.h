// Sets of numeric addresses, as hosts have resolved names to them. Pure.
#pragma once

#include <string>
#include <vector>

namespace tfdist::cli {

using Addresses = std::vector<std::string>;

// Without what is no address, and at most 16: a host's answer is not trusted.
Addresses Checked(const Addresses& addresses);

Addresses WithoutLoopback(Addresses addresses);
bool HasLoopback(const Addresses& addresses);

// Without a common address, though both have some of one family: a resolver may leave a family out that its host does not
// have.
bool Contradict(const Addresses& a, const Addresses& b);

}  // namespace tfdist::cli
