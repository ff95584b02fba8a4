// hosts(5), for machines without getent(1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tfdist {

inline constexpr const char* kHostsFile = "/etc/hosts";

// What the file gives to a name, of whatever case, as it stands there and in its order. Empty where there is no file.
std::vector<std::string> AddressesInHostsFile(std::string_view name);
// The same in the text of such a file.
std::vector<std::string> AddressesInHosts(std::string_view text, std::string_view name);

}  // namespace tfdist
