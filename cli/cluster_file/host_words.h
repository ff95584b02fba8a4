// "trainer@gpu[01-16]:2200": a host as users of ssh and mpirun write it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/cluster_file/host_address.h"

namespace tfdist::cli {

struct HostWords {
  std::string user;           // before the last '@', as for ssh: "jdoe@corp.example"; may be empty
  std::string host;           // not checked yet, brackets and all
  std::optional<int> number;  // after ':'; "fd00::7" has none, "[fd00::7]:22" has
};

// The parts of one host. `most`: of the number, which is `meaning` ("a port", "a number of slots").
std::variant<HostWords, BadAddress> SplitHost(std::string_view text, int most,
                                              std::string_view meaning);

// The hosts of a range in order, each split; their addresses are checked.
std::variant<std::vector<HostWords>, BadAddress> ParseHosts(std::string_view text, int most,
                                                            std::string_view meaning);

// A name for ssh(1) -l.
bool IsUserName(std::string_view name);

}  // namespace tfdist::cli
