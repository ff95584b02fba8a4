#include "base/hosts_file.h"

#include "base/file.h"
#include "base/text.h"

namespace tfdist {
namespace {

constexpr size_t kMostBytes = 16 << 20;  // of blocklists some have megabytes

}  // namespace

std::vector<std::string> AddressesInHostsFile(std::string_view name) {
  return AddressesInHosts(ReadFileIfExists(kHostsFile, kMostBytes).value_or(""), name);
}

std::vector<std::string> AddressesInHosts(std::string_view text, std::string_view name) {
  const std::string wanted = LowerCase(name);
  std::vector<std::string> addresses;
  while (!text.empty()) {
    std::string_view line = TakeUpTo('\n', text);
    line = line.substr(0, line.find('#'));
    const std::string_view address = TakeWord(line);
    for (std::string_view word = TakeWord(line); !word.empty(); word = TakeWord(line)) {
      if (LowerCase(word) == wanted) addresses.emplace_back(address);
    }
  }
  return addresses;
}

}  // namespace tfdist
