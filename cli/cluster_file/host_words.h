// "trainer@gpu[01-16]:2200", "ssh://trainer@gpu1:2200": a host as users of ssh and mpirun write it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/cluster_file/host_address.h"
#include "cli/cluster_file/host_range.h"

namespace tfdist::cli {

// Of one machine.
inline constexpr int kMostSlots = 256;

// What the number after the colon is. ssh:// has the port first: "ssh://gpu1:2200:4".
enum class HostNumber { kPort, kSlots };

struct HostWords {
  std::string user;          // before the last '@', as for ssh: "jdoe@corp.example"; may be empty
  std::string host;          // not checked yet, brackets and all
  std::optional<int> port;   // SSH's
  std::optional<int> slots;  // "fd00::7" has neither, "[fd00::7]:22" has one
};

// "gpu[1,3],gpu7": at the commas that stand in no bracket; blanks beside them are nothing.
std::vector<std::string> SplitHostList(std::string_view list);

// "gpu[1-2],gpu7": each name, as -H and a file have them.
std::variant<std::vector<std::string>, BadRange> ExpandHostList(std::string_view list);

// The parts of one host.
std::variant<HostWords, BadAddress> SplitHost(std::string_view text, HostNumber number);

// The hosts of a list of ranges in order, each split; their addresses are checked.
std::variant<std::vector<HostWords>, BadAddress> ParseHosts(std::string_view text,
                                                            HostNumber number);

// For a name that IsUserName refuses.
inline constexpr std::string_view kUserNameRemedy =
    "write the account's name as the host has it: no blanks, no `[]`, nothing that a shell "
    "reads; where it must be another "
    "one, User in ~/.ssh/config";
// A name for ssh(1) -l.
bool IsUserName(std::string_view name);

}  // namespace tfdist::cli
