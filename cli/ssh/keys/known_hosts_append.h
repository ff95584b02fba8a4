// Adds a line to a known_hosts file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tfdist::ssh {

// Appends the key `blob` under `name` to the first of `files`, in one write(2), so that several
// hosts' threads and several programs never mix lines. `hashed`: as HashKnownHosts. Throws
// Error(kHostKey).
void AppendKnownHost(const std::vector<std::string>& files, const std::string& name,
                     std::string_view blob, bool hashed);

}  // namespace tfdist::ssh
